"""A change of a tag: the exact versions that the tag names from then on, and who decided it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, Final, Literal, get_args

from trainfeed.accounts import account_name, name_problem, person, reason_problem
from trainfeed.dataset.accepted_holes import AcceptedHole, hole_from_json
from trainfeed.dataset.layout import check_name, generation_name
from trainfeed.dataset.skips import Skip
from trainfeed.errors import ConfigError
from trainfeed.intervals import format_time, parse_range, parse_time

__all__ = ["Decision", "Tag", "TaggedVersion"]

Kind = Literal["tag", "untag"]

_DECISION: Final = ("why", "who", "account", "at")
_TEXTS: Final = ("tag", "range", *_DECISION)
_SKIP_TEXTS: Final = ("interval", "why", "at")


@dataclass(frozen=True)
class TaggedVersion:
    """One version that a tag names.

    Attributes:
        interval: Name of its interval.
        generation: Number of its generation.
        manifest_sha256: SHA-256 of its manifest, in hex.
        fingerprint: Its fingerprint, in hex.
    """

    interval: str
    generation: int
    manifest_sha256: str
    fingerprint: str

    @property
    def name(self) -> str:
        """``2013-01-01/g0001``."""
        return f"{self.interval}/{generation_name(self.generation)}"

    @classmethod
    def from_json(cls, value: Sequence[Any]) -> TaggedVersion:
        """Read the JSON of ``to_json``.

        Raises:
            TypeError: A value has another type.
            ValueError: The list has another length, or a value is not valid.
            ConfigError: The interval is no name.
        """
        interval, generation, manifest, fingerprint = value
        if type(generation) is not int or generation < 1:
            raise TypeError(f"expected the number of a generation, got {generation!r}")
        for each in (interval, manifest, fingerprint):
            if not isinstance(each, str):
                raise TypeError(f"expected text, got {each!r}")
        return cls(check_name(interval), generation, manifest, fingerprint)

    def to_json(self) -> list[Any]:
        """Return the entry in the file."""
        return [self.interval, self.generation, self.manifest_sha256, self.fingerprint]


@dataclass(frozen=True)
class Decision:
    """Who changes a tag, and why.

    Attributes:
        why: The reason.
        who: The person.
        account: The account, or the run of a scheduler, that acts for the person.
        at: Time, as ``2026-03-08T00:00:00Z``.
        request: Name of the request, such as a run of a DAG; a request that is in the history
            already changes nothing. None for a change by command.
    """

    why: str
    who: str
    account: str
    at: str
    request: str | None = None

    @classmethod
    def now(
        cls,
        why: str,
        *,
        who: str | None = None,
        account: str | None = None,
        request: str | None = None,
    ) -> Decision:
        """Return a decision at this time.

        Args:
            why: The reason, 3 to 500 printable characters on one line.
            who: The person; None for the account.
            account: The account; None for that of this process.
            request: Name of the request, if it has one.

        Raises:
            ConfigError: A text is empty, too long, or not printable.
        """
        account = account or account_name()
        who = account if who is None else who
        problems = (reason_problem(why), name_problem("who", who), name_problem("account", account))
        for problem in filter(None, problems):
            raise ConfigError(f"{problem}; nothing was changed")
        return cls(why.strip(), who, account, format_time(datetime.now(UTC)), request)


@dataclass(frozen=True)
class Tag:
    """One change of a tag, and what the tag names since.

    Attributes:
        tag: Name of the tag.
        number: Number of the change, from 1.
        kind: ``tag``, or ``untag``: from then on there is no tag of this name.
        range: The range that was tagged, in the forms of ``parse_range``.
        versions: The versions, in order of time.
        skipped: Intervals of the range that the data set left out by decision.
        missing: Intervals of the range without a version, which this change leaves out.
        decision: Who changed the tag, when and why.
        accepted: Holes of the range between versions, which a person had accepted before.
        dataset: Name of the data set; None in a file of before, and before it is written.
    """

    tag: str
    number: int
    kind: Kind
    range: str
    versions: tuple[TaggedVersion, ...]
    skipped: tuple[Skip, ...]
    missing: tuple[str, ...]
    decision: Decision
    accepted: tuple[AcceptedHole, ...] = ()
    dataset: str | None = field(default=None, compare=False, repr=False)

    @cached_property
    def generations(self) -> Mapping[str, int]:
        """Name of each interval → number of its generation."""
        return {version.interval: version.generation for version in self.versions}

    @property
    def name(self) -> str:
        """``prod#3``: names this change also after later ones."""
        return f"{self.tag}#{self.number}"

    @property
    def told(self) -> str:
        """Who changed the tag, when and why; for messages."""
        made = self.decision
        return f"{person(made.who, made.account)} on {made.at}: {made.why}"

    @property
    def left_out(self) -> tuple[Skip, ...]:
        """The intervals of the range without a version, in order, each with the reason."""
        why = f"no version when it was tagged {self.tag} by {self.told}"
        gaps = [Skip(name, why, self.decision.at, None) for name in self.missing]
        return tuple(sorted([*self.skipped, *gaps], key=lambda skip: skip.interval))

    def names_the_same(self, other: Tag) -> bool:
        """Return whether two changes give the tag the same meaning."""
        names = ("kind", "range", "versions", "skipped", "missing", "accepted")
        return all(getattr(self, name) == getattr(other, name) for name in names)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Tag:
        """Read the JSON of ``to_json``; keys that later versions add are ignored.

        Raises:
            KeyError: A value is missing.
            TypeError: A value has another type.
            ValueError: A value is not valid.
            ConfigError: A name or the range is not valid.
        """
        if wrong := [name for name in _TEXTS if not isinstance(value[name], str)]:
            raise TypeError(f"{wrong[0]}: expected text, got {value[wrong[0]]!r}")
        if type(value["number"]) is not int:
            raise TypeError(f"number: expected a number, got {value['number']!r}")
        if value["kind"] not in get_args(Kind):
            raise ValueError(f"kind: got {value['kind']!r}")
        parse_range(value["range"])
        parse_time(value["at"])
        made = Decision(**{name: value[name] for name in _DECISION}, request=_request_of(value))
        versions = tuple(map(TaggedVersion.from_json, value["versions"]))
        skipped = tuple(map(_skip_of, value["skipped"]))
        missing = tuple(parse_range(each).text for each in value["missing"])
        accepted = tuple(map(hole_from_json, value.get("accepted", ())))
        return cls(
            value["tag"],
            value["number"],
            value["kind"],
            value["range"],
            versions,
            skipped,
            missing,
            made,
            accepted,
            value.get("dataset"),
        )

    def to_json(self) -> dict[str, Any]:
        """Return the JSON of the file."""
        return {
            "dataset": self.dataset,
            "tag": self.tag,
            "number": self.number,
            "kind": self.kind,
            "range": self.range,
            "versions": [version.to_json() for version in self.versions],
            "skipped": list(map(_skip_json, self.skipped)),
            "missing": list(self.missing),
            **({"accepted": [asdict(hole) for hole in self.accepted]} if self.accepted else {}),
            **asdict(self.decision),
        }


def _skip_json(skip: Skip) -> dict[str, Any]:
    # Members that came later are left out where they are not set, so the bytes stay the same.
    value = {name: each for name, each in asdict(skip).items() if name != "dataset"}
    return {name: each for name, each in value.items() if each is not None or name == "until"}


def _skip_of(value: Mapping[str, Any]) -> Skip:
    known = {each.name: value[each.name] for each in fields(Skip) if each.name in value}
    found = Skip(**{"until": value["until"], **known})
    texts = [each for name, each in known.items() if each is not None or name in _SKIP_TEXTS]
    if not all(isinstance(each, str) for each in texts):
        raise TypeError(f"expected the decision to skip an interval, got {value!r}")
    _ = found.span
    return found


def _request_of(value: Mapping[str, Any]) -> str | None:
    request = value.get("request")
    if request is not None and not isinstance(request, str):
        raise TypeError(f"request: expected text, got {request!r}")
    return request
