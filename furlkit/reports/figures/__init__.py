"""Pictures, one module for each kind."""

from typing import NamedTuple


class Frame(NamedTuple):
    """Title of a picture, and width and height in inches if given."""

    title: str | None = ""
    size: tuple[float, float] | None = None


UNFRAMED = Frame()
