"""Choices by name, like --objective, for the options of commands."""

from furlkit.catalogue.entries import Family
from furlkit.catalogue.installed import encoders, objectives, rules, updates
from furlkit.catalogue.methods.attacks import ATTACKS
from furlkit.catalogue.methods.teachers import TEACHERS
from furlkit.catalogue.schemes import SCHEMES

# Tables are read by rows: an option takes two lines here, and seven by the formatter.
# fmt: off

OBJECTIVE = Family("objective", objectives, "simclr", "Training objective.")
UPDATE = Family(
    "update", updates, "replace", "Model at the start of the client's round."
)
RULE = Family("rule", rules, "mean", "Rule to combine the uploads.", mixed=True)
ATTACK = Family("kind", lambda: ATTACKS, "scale", "Kind of hostile upload.")
TEACHER = Family("teacher", lambda: TEACHERS, "ensemble",
                 "Source of the labels or targets.", newer=True)
SCHEME = Family("scheme", lambda: SCHEMES, "iid", "Scheme of the partition.")
ENCODER = Family(
    "encoder", encoders, "cnn5", "Network from images to the representation h."
)
