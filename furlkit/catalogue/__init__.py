"""What can be chosen by name, and every option: declared here, once, without torch.

An entry says what a method is called, where its function lies, which heads it trains,
which options it reads and what files pass through it. furlkit/cli/X.py declares command
X; COMMANDS loads a declaration when it is asked for. The flags, the groups of --help, the checks of what applies to what, the options
that a file records and the table of METHODS.md are all made from these entries.

Other packages add entries through the entry-point groups `furlkit.objectives`,
`furlkit.terms`, `furlkit.updates`, `furlkit.rules`, `furlkit.exchanges`,
`furlkit.encoders` and `furlkit.datasets`; see `add_plugins`.
"""

from furlkit.catalogue.entries import (
    ANY,
    FORMATS,
    READ,
    WRITTEN,
    Argument,
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
from furlkit.catalogue.families import (
    ENCODER,
    OBJECTIVE,
    RULE,
    SCHEME,
    TEACHER,
    UPDATE,
)
from furlkit.catalogue.installed import (
    add_plugins,
    datasets,
    encoders,
    exchanges,
    heads,
    load,
    objectives,
    plugin_options,
    plugins,
    rules,
    terms,
    updates,
)
from furlkit.catalogue.methods import (
    ENCODERS,
    HEADS,
    OBJECTIVES,
    RULES,
    TEACHERS,
    TERMS,
    UPDATES,
)
from furlkit.catalogue.protocols import PROTOCOLS
from furlkit.catalogue.registry import COMMANDS
from furlkit.catalogue.roles import direction_of, kinds_of, taker_of
from furlkit.catalogue.schemes import SCHEMES
from furlkit.catalogue.values import defaults, divided, recorded, resolved
from furlkit.catalogue.words import GLOSSARY, OTHER_NAMES
