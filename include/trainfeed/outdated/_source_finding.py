"""What the source says about a published interval."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple, TypeAlias

__all__ = ["SourceFinding", "SourceState"]

SourceState: TypeAlias = Literal["same", "changed", "replaced", "lost", "away", "failed"]
_FOR_PEOPLE: Final[frozenset[SourceState]] = frozenset({"changed", "replaced", "failed"})


class SourceFinding(NamedTuple):
    """What the source says about a published interval.

    Attributes:
        state: ``same``: it has the inputs of the version; ``changed``: other or further ones;
            ``replaced``: another topic or file has the name, or a log file is gone; ``lost``: the
            same, but not all of its records can be read any more; ``away``: it does not answer;
            ``failed``: it could not be compared for another reason.
        text: Why; empty for ``same``.
        late: Where late records of the interval are, or an empty text. They are in a later version,
            and a build of this interval would not take them from there.
    """

    state: SourceState
    text: str = ""
    late: str = ""

    @property
    def needs_a_person(self) -> bool:
        """Whether something is to be decided or repaired; a source may forget what is published."""
        return self.state in _FOR_PEOPLE

    @property
    def told(self) -> str:
        """The finding as one line; empty if there is nothing to say."""
        said = "" if self.state == "same" else f"source {self.state}: {self.text}"
        return "; ".join(part for part in (said, self.late) if part)

    def to_json(self) -> dict[str, str]:
        """Return the finding as commands print it."""
        return self._asdict()
