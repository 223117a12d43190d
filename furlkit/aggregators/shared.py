"""Input and result of a rule for files other than models.

A rule is a function `rule(uploads, **options) -> Combined`. An upload has the `facts` of
the header and the numbers of the file: `tensors` by name, or the attributes of a kind
with a module, such as `rows`. The uploads are checked, and in client order.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple


class Combined(NamedTuple):
    """Result of a rule; `make` computes the tensors by name.

    aggregate calls `make` only if no earlier run of the command wrote the result. `text`
    describes the result. `facts` differ from the facts of the first upload, or are new.
    `data` are further entries of the output of --json.
    """

    text: str
    make: Callable[[], Mapping[str, Any]]
    facts: Mapping[str, Any] = {}
    warnings: tuple[str, ...] = ()
    data: Mapping[str, Any] = {}
