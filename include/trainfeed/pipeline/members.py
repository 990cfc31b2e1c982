"""The members of a union: what of a plan, a version or a specification is that of one of them.

A view of one member has the source strings that the member has alone, so what plans and reads one
source works on it. A source that is no union is its own only part.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, NamedTuple, TypeVar

from trainfeed.errors import ConfigError, TrainFeedError, WindowOpenError
from trainfeed.pipeline.plans import Plan, Planned, PlannedRange
from trainfeed.specification import DatasetSpec
from trainfeed.versions import Manifest
from trainfeed.versions.order import member_source, split_member

T = TypeVar("T")

_SCHEMAS: Final = "schemas"


class InputsOfMember(Mapping[str, T]):
    """The values of one member of a union, by the source strings that it has alone.

    Args:
        whole: Source string → value, of all members; large lists are not copied.
        member: Name of the member.
    """

    def __init__(self, whole: Mapping[str, T], member: str) -> None:
        self._whole = whole
        self._member = member

    def __getitem__(self, source: str) -> T:
        """Return the value of a source."""
        return self._whole[member_source(self._member, source)]

    def __iter__(self) -> Iterator[str]:
        """Yield the source strings of the member."""
        for source in self._whole:
            member, alone = split_member(source)
            if member == self._member:
                yield alone

    def __len__(self) -> int:
        """Return the number of sources of the member."""
        return sum(1 for _ in self)


class MemberPart(NamedTuple):
    """What of inputs is that of one source.

    Attributes:
        name: Name of the member; None for a source that is no union.
        spec: The specification with this source alone.
        inputs: Source string → planned input; of a member by the strings that it has alone.
    """

    name: str | None
    spec: DatasetSpec
    inputs: Mapping[str, Planned]

    def source(self, alone: str) -> str:
        """Return the source string in the data set, from the one that the part has alone."""
        return alone if self.name is None else member_source(self.name, alone)

    def pieces(self, pieces: Iterable[PlannedRange]) -> Iterator[PlannedRange]:
        """Yield pieces with the source strings of the data set."""
        for piece in pieces:
            yield (
                piece
                if self.name is None
                else piece.model_copy(update={"source": self.source(piece.source)})
            )


def parts_of(spec: DatasetSpec, inputs: Mapping[str, Planned]) -> list[MemberPart]:
    """Return the parts of inputs, in order of members."""
    members = spec.members
    if not members:
        return [MemberPart(None, spec, inputs)]
    return [MemberPart(name, each, InputsOfMember(inputs, name)) for name, each in members.items()]


def spec_of(spec: DatasetSpec, source: str) -> DatasetSpec:
    """Return the specification with the source alone that a source string names.

    Raises:
        ConfigError: The specification has no such member.
    """
    member, _ = split_member(source)
    if member is None:
        return spec
    found = spec.members.get(member)
    if found is None:
        known = ", ".join(spec.members) or "no union"
        raise ConfigError(
            f"expected a member {member!r} of the union of data set {spec.name!r}, which has"
            f" {source}, got {known}; nothing was read or published; bring it back in dataset.yaml"
        )
    return found


def label_of(source: str, planned: Planned) -> str:
    """Return the name under which late records of an input are counted, behind its member's."""
    member, _ = split_member(source)
    return planned.label if member is None else member_source(member, planned.label)


def plan_of_member(plan: Plan, member: str) -> Plan:
    """Return the view of one member of a plan, which readers get; it has no ranges and tasks."""
    values = plan.fingerprint_of
    if _SCHEMAS in values:
        values = {**values, _SCHEMAS: dict(InputsOfMember(values[_SCHEMAS], member))}
    update: dict[str, Any] = {
        "fingerprint_of": values,
        "inputs": InputsOfMember(plan.inputs, member),
        "ranges": [],
        "marker": plan.markers.get(member),
        "passed_over": names_of_member(plan.passed_over, member),
    }
    return plan.model_copy(update=update)


def manifest_of_member(manifest: Manifest, member: str) -> Manifest:
    """Return the view of one member of a published version, for the planner of its source."""
    gaps = (
        {**gap, "source": alone}
        for gap in manifest.gaps
        for name, alone in [split_member(gap["source"])]
        if name == member
    )
    update: dict[str, Any] = {
        "inputs": InputsOfMember(manifest.inputs, member),
        "gaps": list(gaps),
        "passed_over": names_of_member(manifest.passed_over, member),
    }
    return manifest.model_copy(update=update)


def names_of_member(passed_over: Mapping[str, str], member: str) -> dict[str, str]:
    """Return what is passed over of one member, by the names that it has alone."""
    head = f"{member}/"
    return {
        name.removeprefix(head): why for name, why in passed_over.items() if name.startswith(head)
    }


@contextmanager
def telling_member(member: str | None) -> Generator[None]:
    """Put the name of a member before the message of an error; nothing for None."""
    try:
        yield
    except TrainFeedError as error:
        if member is not None and error.args:
            begin = f"member {member} of the union: "
            error.args = (f"{begin}{error.args[0]}", *error.args[1:])
            if isinstance(error, WindowOpenError) and error.reason:
                error.reason = f"{begin}{error.reason}"
        raise
