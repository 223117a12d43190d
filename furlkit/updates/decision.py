"""Decision of a client at the start of a round."""

from typing import Any, NamedTuple


class Decision(NamedTuple):
    """`own`: share of the client's last weights in its new weights, 0 to 1.

    `distance`: the distance behind the decision; None in a client's first round.
    """

    own: float
    distance: float | None = None

    @property
    def word(self) -> str:
        """Return "took" (the global weights), "kept" (the client's) or "mixed"."""
        return {0.0: "took", 1.0: "kept"}.get(self.own, "mixed")

    @property
    def text(self) -> str:
        """The decision in words: "mixed, 0.30 of its own, distance 0.5"."""
        far = "" if self.distance is None else f", distance {self.distance:.4g}"
        return f"{self.word}, {self.own:.2f} of its own{far}"

    def to_json(self) -> dict[str, Any]:
        """Entry for journals."""
        return {"decision": self.word, **self._asdict()}
