"""Pictures, one module for each kind."""

from typing import NamedTuple


class Frame(NamedTuple):
    """A picture's title, and its width and height in inches if they are given."""

    title: str | None = ""
    size: tuple[float, float] | None = None


UNFRAMED = Frame()
