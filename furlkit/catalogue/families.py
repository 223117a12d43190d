"""Choices by name, as --objective, of which commands make options."""

from furlkit.catalogue.entries import Family
from furlkit.catalogue.installed import encoders, objectives, rules, updates
from furlkit.catalogue.methods import ATTACKS, TEACHERS
from furlkit.catalogue.schemes import SCHEMES

# Tables are read by rows: an option takes two lines here, and seven by the formatter.
# fmt: off

OBJECTIVE = Family("objective", objectives, "simclr", "What a batch minimises.")
UPDATE = Family(
    "update", updates, "replace", "What the client starts the round from."
)
RULE = Family("rule", rules, "mean", "What is made of the uploads.", mixed=True)
ATTACK = Family("kind", lambda: ATTACKS, "scale", "What is sent instead.")
TEACHER = Family("teacher", lambda: TEACHERS, "ensemble",
                 "What the model learns from.", newer=True)
SCHEME = Family("scheme", lambda: SCHEMES, "iid", "How images are partitioned.")
ENCODER = Family(
    "encoder", encoders, "cnn5", "The network whose output is the representation h."
)
