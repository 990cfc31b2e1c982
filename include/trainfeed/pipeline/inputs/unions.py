"""A union planned and read: its members by the readers of their sources, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from trainfeed.core.config import Environment
from trainfeed.core.intervals import Interval
from trainfeed.errors import ConfigError
from trainfeed.pipeline.inputs.logs import log_location
from trainfeed.pipeline.inputs.protocols import Head, Inputs, SourceReader
from trainfeed.pipeline.members import manifest_of_member, telling_member
from trainfeed.pipeline.plans import Planned, PlannedFile, PlannedRange
from trainfeed.pipeline.stage import Stage
from trainfeed.specification import DatasetSpec
from trainfeed.versions import DatasetFolder, Manifest, Skip
from trainfeed.versions.order import member_source, split_member

# The beginning of the reason for which an interval of a source is taken as empty.
_MISSING: Final = "missing: "


class UnionInputs:
    """The inputs of all members of an interval, as ``Inputs`` of the planner.

    Args:
        members: Name → inputs of the member, in name order.
        env: Folders and connections.
    """

    marker: str | None = None

    def __init__(self, members: Mapping[str, Inputs], env: Environment) -> None:
        self._members = members
        self._env = env
        self._absent: dict[str, str] = {}

    def of_member(self, name: str) -> Inputs:
        """Return the inputs of one member."""
        return self._members[name]

    @property
    def markers(self) -> dict[str, str]:
        """Member → name of the file that marked its folder as complete."""
        found = {name: source.marker for name, source in self._members.items()}
        return {name: marker for name, marker in found.items() if marker is not None}

    @property
    def passed_over(self) -> dict[str, str]:
        """Name behind that of its member → reason; also what a member is taken as empty for."""
        others = {
            member_source(name, entry): why
            for name, source in self._members.items()
            for entry, why in source.passed_over.items()
        }
        return {**others, **self._absent}

    def inputs(self, current: Manifest | None) -> dict[str, Planned]:
        """Return source string → planned range or file, of all members."""
        found: dict[str, Planned] = {}
        for name, source in self._members.items():
            with telling_member(name):
                planned = source.inputs(_of_member(current, name))
            found.update(_behind(name, planned))
        return found

    def skip(self) -> Skip | None:
        """Return the decision of a member to skip the interval, or None if it is built.

        Every member is asked, so that none is skipped that another one waits for.
        """
        found: list[Skip] = []
        for name, source in self._members.items():
            with telling_member(name):
                decision = source.skip()
            if decision is not None:
                found.append(replace(decision, why=f"member {name}: {decision.why}"))
        return found[0] if found else None

    def without_losses(
        self, current: Manifest | None, allow_gap: str | None
    ) -> tuple[dict[str, Planned], list[dict[str, Any]]]:
        """Return the inputs that can still be read, and all gaps that were allowed.

        Raises:
            ConfigError: Two members have one topic, or one file.
            TrainFeedError: Those of the members.
        """
        inputs: dict[str, Planned] = {}
        gaps: list[dict[str, Any]] = []
        self._absent = {}
        for name, source in self._members.items():
            published = _of_member(current, name)
            if published is not None and not published.inputs and not published.gaps:
                published = None  # what was taken as empty then is decided again
            with telling_member(name):
                planned, lost = source.without_losses(published, allow_gap)
                self._tell_absent(name, source, planned, allow_gap)
            inputs.update(_behind(name, planned))
            gaps += ({**gap, "source": member_source(name, gap["source"])} for gap in lost)
        _require_apart(inputs, self._env)
        return inputs, gaps

    def _tell_absent(
        self, name: str, source: Inputs, planned: Mapping[str, Planned], allow_gap: str | None
    ) -> None:
        """Note why a member without inputs is taken as empty, for plan and manifest."""
        reasons = {} if planned else source.empty_because(planned, allow_gap)
        for place, why in reasons.items():
            if why.startswith(_MISSING):
                self._absent[member_source(name, place.lstrip("/"))] = why

    def confirm(self) -> None:
        """Let each member make sure that what the plan was made from is still there."""
        for name, source in self._members.items():
            with telling_member(name):
                source.confirm()

    def empty_because(self, inputs: Mapping[str, Planned], allow_gap: str | None) -> dict[str, str]:
        """Return, by source, why nothing is read; empty if any member has records to read."""
        found: dict[str, str] = {}
        for name, source in self._members.items():
            own = {
                alone: planned
                for key, planned in inputs.items()
                for member, alone in [split_member(key)]
                if member == name
            }
            reasons = source.empty_because(own, allow_gap)
            if not reasons:
                return {}
            found |= {member_source(name, place.lstrip("/")): why for place, why in reasons.items()}
        return found


def _of_member(current: Manifest | None, name: str) -> Manifest | None:
    return None if current is None else manifest_of_member(current, name)


def _behind(name: str, planned: Mapping[str, Planned]) -> dict[str, Planned]:
    return {member_source(name, source): each for source, each in planned.items()}


def _require_apart(inputs: Mapping[str, Planned], env: Environment) -> None:
    """Refuse a topic or a file that two members have, perhaps by two connections.

    Raises:
        ConfigError: There is one.
    """
    users: dict[tuple[object, ...], str] = {}
    for source, planned in inputs.items():
        if isinstance(planned, PlannedFile):
            place: tuple[object, ...] = (_uri(planned, env),)
        else:
            place = (planned.cluster, planned.topic_uuid, planned.partition)
        other = users.setdefault(place, source)
        if split_member(other)[0] != split_member(source)[0]:
            raise ConfigError(
                f"{other} and {source} are one and the same: each of its records would be in the"
                " data set twice; nothing was read or published; take one of the members out of"
                " source.union"
            )


def _uri(planned: PlannedFile, env: Environment) -> str:
    if planned.snapshot is not None:
        return planned.path
    return log_location(env, planned.connection, planned.path).uri


class UnionReader:
    """Reads the members of a union by the readers of their sources.

    Args:
        reader_of: Function from the specification of a member to its reader.
    """

    def __init__(self, reader_of: Callable[[DatasetSpec], SourceReader]) -> None:
        self._reader_of = reader_of

    @contextmanager
    def open(
        self, spec: DatasetSpec, env: Environment, folder: DatasetFolder, interval: Interval
    ) -> Iterator[UnionInputs]:
        """Open the source of every member.

        Raises:
            TrainFeedError: Those of the members, with their names.
        """
        with ExitStack() as stack:
            opened: dict[str, Inputs] = {}
            for name, each in spec.members.items():
                with telling_member(name):
                    source = self._reader_of(each).open(each, env, folder, interval)
                    opened[name] = stack.enter_context(source)
            yield UnionInputs(opened, env)

    def check_names(self, stage: Stage, pieces: Iterable[PlannedRange]) -> None:
        """Compare the names of each member with the plan."""
        own: dict[str | None, list[PlannedRange]] = {name: [] for name in stage.spec.members}
        for piece in pieces:
            member, alone = split_member(piece.source)
            own[member].append(piece.model_copy(update={"source": alone}))
        for name, spec in stage.spec.members.items():
            with telling_member(name):
                self._reader_of(spec).check_names(stage.of_member(name), own[name])

    def check(self, stage: Stage, sources: Iterable[str]) -> None:
        """Compare the sources of each member with the plan."""
        wanted: dict[str, set[str]] = {}
        for source in sources:
            member, alone = split_member(source)
            if member is not None:
                wanted.setdefault(member, set()).add(alone)
        for member, names in sorted(wanted.items()):
            own = stage.of_member(member)
            with telling_member(member):
                self._reader_of(own.spec).check(own, names)

    def batches(self, stage: Stage, piece: PlannedRange) -> Iterator[pa.RecordBatch]:
        """Yield the records of one planned range, by ascending offset."""
        member, alone = split_member(piece.source)
        own = stage.of_source(piece.source)
        with telling_member(member):
            part = piece.model_copy(update={"source": alone})
            yield from self._reader_of(own.spec).batches(own, part)

    def head(
        self, spec: DatasetSpec, interval: Interval, env: Environment, place: Path, limit: int
    ) -> Head:
        """Copy the first records of members whose ranges cannot be cut, each its share.

        Raises:
            TrainFeedError: Those of the members, with their names.
        """
        seen, passed_over = env, dict[str, str]()
        share = -(-limit // len(spec.members))
        for name, each in spec.members.items():
            # Folders of logs are read where they are, also behind a connection of copies.
            whole = replace(seen, logs=env.logs)
            with telling_member(name):
                found = self._reader_of(each).head(each, interval, whole, place, share)
            copied = {key: uri for key, uri in found.env.logs.items() if env.logs.get(key) != uri}
            seen = replace(found.env, logs={**seen.logs, **copied})
            passed_over |= {member_source(name, k): why for k, why in found.passed_over.items()}
        return Head(seen, passed_over)


def ranges_of_topics(spec: DatasetSpec, source: Inputs) -> Mapping[str, Planned]:
    """Return the ranges of offsets of an interval that is skipped, by their source strings.

    Args:
        spec: The data set.
        source: The inputs of the interval.
    """
    if not isinstance(source, UnionInputs):
        return source.inputs(None) if spec.source.kind.topics else {}
    found: dict[str, Planned] = {}
    for name, each in spec.members.items():
        if each.source.kind.topics:
            found |= _behind(name, source.of_member(name).inputs(None))
    return found
