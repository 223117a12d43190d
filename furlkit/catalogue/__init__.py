"""Declarations of methods, options and commands, without torch.

An entry declares the name of a method, the place of the function, the heads, the options
and the files. furlkit/cli/X.py declares command X; COMMANDS loads a declaration on
demand. Flags, groups of --help, checks of options, recorded options and the table of
METHODS.md are derived from these entries.

Other packages add entries through the entry-point groups `furlkit.objectives`,
`furlkit.terms`, `furlkit.updates`, `furlkit.rules`, `furlkit.exchanges`,
`furlkit.encoders` and `furlkit.datasets`; see `add_plugins`. Kinds of files have the
group `furlkit.kinds`, see `furlkit.files.kinds`.
"""

from furlkit.catalogue.audits import AUDITS
from furlkit.catalogue.entries import (
    ANY,
    FORMATS,
    READ,
    WRITTEN,
    Argument,
    Attack,
    Choice,
    Clients,
    Command,
    Data,
    Dataset,
    Encoder,
    Exchange,
    Family,
    File,
    Flag,
    Group,
    Head,
    Kind,
    Labelled,
    Method,
    Mode,
    Number,
    Numbers,
    Objective,
    Option,
    Paper,
    Personal,
    Protocol,
    Rule,
    Scheme,
    Teacher,
    Term,
    Text,
    Update,
    Whole,
    entry_of,
    key_of,
    reads_file,
    shown,
    writes_file,
)
from furlkit.catalogue.exchanges import EXCHANGES, PERSONAL, SHARE_ROWS
from furlkit.catalogue.families import OBJECTIVE
from furlkit.catalogue.installed import (
    add_plugins,
    changed_package,
    datasets,
    encoders,
    exchanges,
    heads,
    load,
    objectives,
    objectives_that,
    plugin_options,
    plugins,
    rules,
    terms,
    updates,
    used_code,
)
from furlkit.catalogue.methods.attacks import ATTACKS
from furlkit.catalogue.methods.encoders import HEADS
from furlkit.catalogue.methods.objectives import OBJECTIVES
from furlkit.catalogue.methods.rules import RULES
from furlkit.catalogue.methods.teachers import TEACHERS
from furlkit.catalogue.methods.terms import TERMS
from furlkit.catalogue.methods.updates import UPDATES
from furlkit.catalogue.protocols import PROTOCOLS
from furlkit.catalogue.registry import COMMANDS, command_at
from furlkit.catalogue.roles import (
    GivenFile,
    direction_of,
    given_data,
    given_files,
    kinds_of,
    taker_of,
)
from furlkit.catalogue.schemes import SCHEMES
from furlkit.catalogue.used import methods_used
from furlkit.catalogue.values import defaults, divided, recorded, resolved
from furlkit.catalogue.words import GLOSSARY, OTHER_NAMES, our_name
