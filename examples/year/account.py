"""Holds the published versions against the producer's account of its events; trainfeed is not used.

Every event of the log is looked for in all versions that readers get: it is in exactly one, as the
sample, the quarantined record or the filtered record that the version's function makes of it. The
events of days that are not published are between the versions, and are counted as not built.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

import pyarrow as pa

from tests.oracle.accounting import check_manifest_ledger
from tests.oracle.independent_reader import Version, parse_sample

__all__ = ["Account", "Found"]

_TOPIC: Final = "kafka:flights"

Place: TypeAlias = tuple[str, int]
# Name, size, time of change and number of every file of a version: it is read again if one differs.
_State: TypeAlias = tuple[tuple[str, int, int, int], ...]


@dataclass(frozen=True)
class Found:
    """What an account found.

    Attributes:
        versions: Number of versions for readers.
        events: Number of events of the log.
        in_versions: Number of events in them.
        not_built: Number of events of days without a version.
        lost: Number of events that a version covers and does not have.
        doubled: Number of events that are in two places.
        wrong: Number of events with another outcome, label or bytes than the producer's account.
        damaged: Versions that contradict their own manifest.
        others: Versions that readers should get and do not, or get and should not.
    """

    versions: int
    events: int
    in_versions: int
    not_built: int
    lost: int
    doubled: int
    wrong: int
    damaged: tuple[str, ...] = ()
    others: tuple[str, ...] = ()

    def __str__(self) -> str:
        return (
            f"{self.versions} versions, {self.in_versions} of {self.events} events in them,"
            f" {self.not_built} of days that are not built; lost {self.lost}, doubled"
            f" {self.doubled}, wrong {self.wrong}{_named('damaged', self.damaged)}"
            f"{_named('not as it should be', self.others)}"
        )


@dataclass
class Account:
    """The producer's account of a log, and the log itself.

    Attributes:
        account: Path of the account, an Arrow file with the columns of ``ACCOUNT_COLUMNS``.
        topic: Folder of the recorded topic.
        first_code: Digest of the first function; None until a version shows it.
    """

    account: Path
    topic: Path
    first_code: str | None = None
    _events: dict[Place, Mapping[str, Any]] = field(default_factory=dict)
    _seen: dict[tuple[str, _State], Counter[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        with pa.memory_map(str(self.account)) as file:
            rows = pa.ipc.open_file(file).read_all().to_pylist()
        self._events = {(f"{_TOPIC}/{row['partition']}", row["offset"]): row for row in rows}
        logged = dict(_logged(self.topic))
        same = logged == {place: row["value"] for place, row in self._events.items()}
        if not same:
            raise AssertionError("the log is not the one of the producer's account")

    def check(self, versions: Path, expected: Mapping[str, str] | None = None) -> Found:
        """Compare all versions for readers with the account.

        Args:
            versions: The folder ``versions`` of the data set.
            expected: Interval → generation that readers should get; None if any may be there.
        """
        counts, covered, damaged = Counter[str](), Counter[Place](), []
        folders = list(_readable(versions))
        for folder in folders:
            manifest = _manifest(folder)
            covered.update(_places(manifest))
            try:
                counts.update(self._of(folder, manifest))
            except AssertionError:
                damaged.append(_name(folder))
        names = set(map(_name, folders))
        wanted = names if expected is None else {"/".join(each) for each in expected.items()}
        counts["doubled"] += sum(number - 1 for number in covered.values())
        return Found(
            versions=len(folders),
            events=len(self._events),
            in_versions=len(covered.keys() & self._events.keys()),
            not_built=len(self._events.keys() - covered.keys()),
            lost=counts["lost"] + len(covered.keys() - self._events.keys()),
            doubled=counts["doubled"],
            wrong=counts["wrong"],
            damaged=tuple(damaged),
            others=tuple(sorted(names ^ wanted)),
        )

    def samples(self, versions: Path, chosen: Mapping[str, str]) -> tuple[int, int]:
        """Return how many samples versions should have, and how many of them the label 1.

        Args:
            versions: The folder ``versions`` of the data set.
            chosen: Interval → generation.
        """
        labels = Counter[int]()
        for interval, generation in chosen.items():
            manifest = _manifest(versions / interval / generation)
            events = (self._events[place] for place in _places(manifest))
            fate = self._fate(manifest)
            labels.update(event["label"] for event in events if event[fate] == "sample")
        return labels.total(), labels[1]

    def _of(self, folder: Path, manifest: Mapping[str, Any]) -> Counter[str]:
        """Return the counts of one version, which is read again when one of its files differs."""
        key = ((folder / "MANIFEST.sha256").read_text(), _state(folder))
        if key not in self._seen:
            self.first_code = self.first_code or manifest["code"]["digest"]
            version = Version(folder)  # type: ignore[no-untyped-call]
            check_manifest_ledger(version)  # type: ignore[no-untyped-call]
            self._seen[key] = self._compared(version)
        return self._seen[key]

    def _fate(self, manifest: Mapping[str, Any]) -> str:
        """Return the column with what the function of a version makes of an event."""
        return "early_fate" if manifest["code"]["digest"] == self.first_code else "fate"

    def _compared(self, version: Any) -> Counter[str]:
        manifest = version.manifest
        fate = self._fate(manifest)
        events = {place: self._events[place] for place in _places(manifest)}
        samples = {(source, offset): record for source, offset, _, record in version.samples}
        refused = {(row["source"], row["offset"]): row["raw"] for row in version.quarantine}
        meant = Counter(event[fate] for event in events.values())
        found = Counter(sample=len(samples), quarantined=len(refused))
        for leaves in manifest["ledger"].values():
            for reason, leaf in leaves["filtered"].items():
                found[f"filtered:{reason}"] += leaf["records"]
        wrong = [
            *(events[place][fate] != "sample" for place in samples),
            *(events[place][fate] != "quarantined" for place in refused),
            *(events[place]["value"] != raw for place, raw in refused.items()),
            *(_label(manifest, each) != events[place]["label"] for place, each in samples.items()),
        ]
        return Counter(
            lost=sum((meant - found).values()),
            doubled=len(version.samples) - len(samples) + len(version.quarantine) - len(refused),
            wrong=sum(wrong),
        )


def _label(manifest: Mapping[str, Any], record: bytes) -> int:
    sample = parse_sample(manifest["schema"], record)  # type: ignore[no-untyped-call]
    return int(sample["label"])


def _manifest(folder: Path) -> dict[str, Any]:
    manifest: dict[str, Any] = json.loads((folder / "MANIFEST.json").read_bytes())
    return manifest


def _places(manifest: Mapping[str, Any]) -> Iterator[Place]:
    """Yield the places of the log that a version covers."""
    for source, planned in manifest["inputs"].items():
        yield from ((source, number) for number in range(planned["start"], planned["end"]))


def _state(folder: Path) -> _State:
    files = [(str(path), path.stat()) for path in folder.rglob("*") if path.is_file()]
    return tuple(sorted((name, of.st_size, of.st_mtime_ns, of.st_ino) for name, of in files))


def _name(folder: Path) -> str:
    return f"{folder.parent.name}/{folder.name}"


def _named(what: str, names: Sequence[str]) -> str:
    return f"; {what}: {', '.join(names)}" if names else ""


def _readable(versions: Path) -> Iterator[Path]:
    """Yield the version of every interval that readers get: the newest without a mark."""
    for interval in sorted(versions.iterdir()):
        names = {path.name for path in interval.iterdir()}
        numbers = [
            name
            for name in names
            if name.startswith("g") and "." not in name
            and not {f"{name}.withdrawn", f"{name}.removed"} & names
        ]  # fmt: skip
        if numbers:
            yield interval / max(numbers)


def _logged(topic: Path) -> Iterator[tuple[Place, bytes]]:
    """Yield every record of the log: its place and its bytes."""
    for path in sorted(topic.glob("p=*/*.arrow")):
        number = path.parent.name.removeprefix("p=")
        with pa.memory_map(str(path)) as file:
            table = pa.ipc.open_file(file).read_all()
        for offset, value in zip(
            table["offset"].to_pylist(), table["value"].to_pylist(), strict=True
        ):
            yield (f"{_TOPIC}/{number}", offset), value
