"""The manifest of a version: its content, its origin, and the digests that prove both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from trainfeed.core import canonical_json
from trainfeed.core.datacenters import local_source
from trainfeed.core.reading_rules import ReadingRules
from trainfeed.errors import FormatError
from trainfeed.files import FilePath
from trainfeed.versions.file_list import (
    FACTS,
    LEDGER_COLUMNS,
    KeptList,
    Listed,
    ListedNames,
    account_of,
)
from trainfeed.versions.layout import MANIFEST, is_generation, is_name, parse_generation
from trainfeed.versions.listed_files import ListedFiles
from trainfeed.versions.publication import read_manifest_file

if TYPE_CHECKING:
    from trainfeed.versions.arrow_list import FileList

# --- Compares the path of a version with its manifest: a renamed folder has the data of another day

_VERSIONS: Final = "versions"
# Of the path of a version: the root of the file system, data set, versions, interval, generation.
_FEWEST_PARTS: Final = 5
# The name of an interval is its start, as short as the schedule allows: day, hour or minute. Length
# of the name → the part of ``2013-01-01T05:10:00Z`` in it; 15 characters have no colon.
_START_CHARS: Final = {10: slice(0, 10), 13: slice(0, 13), 15: slice(0, 16)}


class VersionPlace(NamedTuple):
    """Data set, interval and generation from the path of a version."""

    dataset: str
    interval: str
    generation: int


def require_folder(path: Path) -> VersionPlace | None:
    """Refuse a version whose folder is a symbolic link.

    Returns:
        The place that the path names, for ``require_place``; None for a folder elsewhere.

    Raises:
        FormatError: The folder is a link, which could lead to another version or change.
    """
    place = _place(path)
    if place is not None and path.is_symlink():
        raise FormatError(
            "expected a version folder, got a symbolic link, which is not followed; nothing was"
            " read; put the version itself here, or remove the link",
            path=str(path),
        )
    return place


def require_place(
    path: Path, place: VersionPlace | None, dataset: str, start: str, generation: int
) -> None:
    """Compare the values of a manifest with the version's path.

    Args:
        path: Folder of the version.
        place: What it names, from ``require_folder``.
        dataset: Name of the data set in the manifest.
        start: Start of the interval in the manifest, as ``2013-01-01T05:10:00Z``.
        generation: Number of the generation in the manifest.

    Raises:
        FormatError: The version belongs elsewhere; the message names every difference.
    """
    if place is None:
        return
    found = VersionPlace(dataset, _interval_name(start, len(place.interval)), generation)
    if place == found:
        return
    differences = [
        f"{name} {promised!r}, the manifest says {actual!r}"
        for name, promised, actual in zip(place._fields, place, found, strict=True)
        if promised != actual
    ]
    raise FormatError(
        f"expected {'; '.join(differences)}: this is another version in the place of the one"
        " that the path names; nothing was read; restore the right folder from a backup, or"
        " remove this one and build the interval again",
        path=str(path),
    )


def _place(path: Path) -> VersionPlace | None:
    parts = path.absolute().parts
    if len(parts) < _FEWEST_PARTS:
        return None
    dataset, versions, interval, generation = parts[-4:]
    if versions != _VERSIONS or not is_generation(generation) or not is_name(dataset):
        return None
    return VersionPlace(dataset, interval, parse_generation(generation))


def _interval_name(start: str, num_chars: int) -> str:
    text = start[_START_CHARS.get(num_chars, slice(None))]
    return text.replace(":", "") if num_chars == 15 else text


# --- The manifest of a version: its content, its origin, and the digests that prove both

FORMAT: Final = 1

# Files whose records take a byte or more each, and offsets.
_PLAIN: Final = (None, "none")
_FileName = Annotated[
    str, Field(pattern=r"^([A-Za-z0-9][A-Za-z0-9._-]{0,199}/)?[A-Za-z0-9][A-Za-z0-9._-]{0,199}$")
]
_Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
_Count = Annotated[int, Field(ge=0)]


# Keys that were added later. They are left out where they do not apply, so that the bytes of other
# manifests stay the same.
_OPTIONAL: Final = frozenset(
    {
        "empty_because",
        "passed_over",
        "reading_rules",
        "references",
        "schema_changes",
        "schemas",
        "shard_skew",
        "source_list",
        "uploads",
    }
)


class _ManifestModel(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class ShardEntry(_ManifestModel):
    """One shard: size in bytes, samples, and the digests of its file and of its records."""

    name: _FileName
    bytes: _Count
    samples: _Count
    sha256: _Digest
    records_sha256: _Digest


class SplitEntry(_ManifestModel):
    """One split: its share in millionths (0 for ``late``), samples and shards in order."""

    millionths: _Count
    samples: _Count
    shards: list[ShardEntry]


class FileEntry(_ManifestModel):
    """Any other file of the version."""

    name: _FileName
    bytes: _Count
    sha256: _Digest


class IntervalEntry(_ManifestModel):
    """Start and end (exclusive) of the interval, as ``2013-01-01T00:00:00Z``."""

    start: str
    end: str


class Manifest(_ManifestModel):
    """The manifest; the format defines each field.

    ``empty_because`` is optional: source string → why nothing was read of it, in versions for
    which nothing was read at all. ``passed_over`` is optional: name → reason of every entry of the
    folder of logs that was not read; it is no part of the fingerprint. ``uploads`` is optional: the
    labelled files that were joined with the samples, the kind of join, and its account.
    ``references`` is optional: interval, generation and digest of the earlier versions that gates
    compared with. ``schema_changes`` is optional: every change of the schema since the newest of
    them. ``shard_skew`` is optional: the largest shard of a split divided by its mean shard, by
    samples and by bytes, for the split in which it is largest; in versions with several shards in a
    split. ``reading_rules`` is optional: the number of the rules by which values were read; 0, and
    not in the file, for the first ones, and for data sets that the rules do not concern.
    ``schemas`` is optional: file and digest of the reader's schemas of values and keys; registry,
    id and digest of the writers' schemas that the records have, null for one that was not there.
    ``source_list`` is optional: the digest of ``SOURCES.arrow``, which has the inputs of many files
    and their ledger; the JSON of ``sources``, ``inputs`` and ``ledger`` is then empty, and in
    memory they are made from that file by need, which raises ``FormatError`` where it is damaged.
    """

    format: int
    dataset: str
    interval: IntervalEntry
    generation: Annotated[int, Field(ge=1)]
    supersedes: dict[str, Any] | None
    fingerprint: _Digest
    content_digest: _Digest
    empty: bool
    fields: Annotated[list[dict[str, Any]], Field(alias="schema")]
    splits: dict[str, SplitEntry]
    files: list[FileEntry]
    sources: Sequence[str]
    inputs: Mapping[str, dict[str, Any]]
    gaps: list[dict[str, Any]]
    late: dict[str, Any]
    ledger: Mapping[str, Any]
    quarantine: dict[str, Any]
    filtered: dict[str, int]
    gates: list[dict[str, Any]]
    waivers: list[dict[str, Any]]
    code: dict[str, Any]
    lookups: dict[str, str]
    libraries: dict[str, str]
    plan: str
    empty_because: dict[str, str] = Field(default_factory=dict)
    passed_over: dict[str, str] = Field(default_factory=dict)
    uploads: dict[str, Any] = Field(default_factory=dict)
    references: list[dict[str, Any]] = Field(default_factory=list)
    schema_changes: list[dict[str, Any]] = Field(default_factory=list)
    shard_skew: dict[str, float] = Field(default_factory=dict)
    reading_rules: _Count = 0
    schemas: dict[str, list[dict[str, Any]]] = Field(default_factory=dict)
    source_list: ListedFiles | None = None

    @property
    def span(self) -> int:
        """Offsets or bytes of all inputs."""
        if isinstance(self.inputs, Listed):
            return int(self.inputs.files.numbers("end").sum())
        return sum(each["end"] - each["start"] for each in self.inputs.values())

    @property
    def records_read(self) -> int:
        """Records that were read, of all sources."""
        return self._sum("read", "records")

    @property
    def records_valid(self) -> int:
        """Records that became samples."""
        return self._sum("valid", "records")

    @property
    def bytes_read(self) -> int:
        """Bytes of these records."""
        return self._sum("read", "bytes")

    def _sum(self, outcome: str, count: str) -> int:
        if isinstance(self.ledger, Listed):
            return int(self.ledger.files.numbers(f"{outcome}.{count}").sum())
        return sum(leaf[outcome][count] for leaf in self.ledger.values())

    def imbalances(self) -> list[str]:
        """Return one line per source whose read records are not all accounted for.

        Raises:
            FormatError: The ledger, or its file, is damaged.
        """
        from trainfeed.versions.ledger import Ledger

        ledger = self.ledger
        if isinstance(ledger, Listed):
            from trainfeed.versions.source_list import unequal

            ledger = {source: ledger[source] for source in unequal(ledger.files)}
        return Ledger.from_json(ledger).imbalances()

    @property
    def rules(self) -> ReadingRules:
        """The rules by which the values of the version were read.

        Raises:
            FormatError: A newer trainfeed has rules that this one does not know.
        """
        try:
            return ReadingRules(self.reading_rules or ReadingRules.GUESSED)
        except ValueError as error:
            raise FormatError(f"the version is of a newer trainfeed: {error}") from error

    def to_bytes(self) -> bytes:
        """Return the canonical JSON."""
        return canonical_json.dumps(self.to_json())

    def to_json(self) -> dict[str, Any]:
        """Return the JSON of the file, without keys that do not apply."""
        listed = set[str]() if self.source_list is None else {"sources", "inputs", "ledger"}
        value = self.model_dump(by_alias=True, exclude=listed)
        if listed:
            value |= {"sources": [], "inputs": {}, "ledger": {}}
        return {key: each for key, each in value.items() if key not in _OPTIONAL or each}

    def file_digests(self) -> dict[str, tuple[int, str]]:
        """Return name → (bytes, sha256) of every file that the version must have.

        The manifest's own two files and BUILT.json, which no digest covers, are left out.
        """
        shards = [shard for split in self.splits.values() for shard in split.shards]
        entries: list[ShardEntry | FileEntry] = [*shards, *self.files]
        return {entry.name: (entry.bytes, entry.sha256) for entry in entries}

    def num_samples(self) -> int:
        """Return the number of samples of all splits."""
        return sum(split.samples for split in self.splits.values())

    @classmethod
    def from_bytes(cls, data: bytes, *, path: str | None = None) -> Manifest:
        """Parse a manifest; every value is checked.

        Raises:
            FormatError: ``data`` is no manifest, one whose counts contradict each other, or one
                of a newer version of trainfeed.
        """
        value = canonical_json.loads_canonical(data, path=path)
        if isinstance(value, dict) and value.get("format") != FORMAT:
            raise FormatError(
                f"expected a manifest of format {FORMAT}, got {value.get('format')!r};"
                " a newer trainfeed wrote it",
                path=path,
            )
        try:
            manifest = cls.model_validate(value)
            if manifest.source_list is None:
                _require_equal_counts(manifest)
            else:
                _require_listed(manifest)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            place = ".".join(map(str, first["loc"]))
            raise FormatError(f"expected a manifest: {place}: {first['msg']}", path=path) from error
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise FormatError(
                f"expected a manifest whose counts agree: {error}; nothing was read; restore the"
                " version from a backup, or withdraw it and build the interval with --rebuild WHY",
                path=path,
            ) from error
        return manifest

    @classmethod
    def read(cls, folder: FilePath) -> tuple[Manifest, str]:
        """Read the manifest of a version and verify its digest.

        Args:
            folder: The version.

        Returns:
            The manifest and its SHA-256 in hex.

        Raises:
            NotFoundError: No version is there.
            ChecksumError: The manifest is not the one that was published.
            FormatError: The files are no manifest or no digest; the folder is a symbolic link; the
                manifest names another data set, interval or generation than the path.
            StorageError: The file system refused or failed.
        """
        source = local_source(folder)
        folder = source if isinstance(source, Path) else Path(source)
        place = require_folder(folder)
        data, actual = read_manifest_file(folder, what="version")
        manifest = cls.from_bytes(data, path=f"{folder}/{MANIFEST}")
        require_place(folder, place, manifest.dataset, manifest.interval.start, manifest.generation)
        return manifest if manifest.source_list is None else _with_list(manifest, folder), actual


def content_digest(
    schema: Sequence[Mapping[str, Any]], records_sha256: Mapping[str, Sequence[str]]
) -> str:
    """Return the digest of a version's content, independent of codec and library versions.

    Args:
        schema: The schema as JSON.
        records_sha256: Split → digests of its shards' records, in order.
    """
    splits = {name: list(digests) for name, digests in records_sha256.items()}
    return canonical_json.sha256_of({"schema": list(schema), "splits": splits})


def _require_equal_counts(manifest: Manifest) -> None:
    """Compare inputs, ledger, splits and quarantine, as far as whole numbers say it.

    ``Version.verify`` compares the ledger as a whole: its sums take longer than all the rest.
    """
    ledger, inputs = manifest.ledger, manifest.inputs
    samples = quarantined = filtered = 0
    for source, account in ledger.items():
        read, valid = account["read"]["records"], account["valid"]
        refused = account["quarantined"]["records"]
        left_out = 0
        for leaf in account["filtered"].values():
            left_out += leaf["records"]
        if read != valid["records"] + refused + left_out:
            raise ValueError(f"ledger of {source}: read is not valid, quarantined and filtered")
        planned = inputs[source]
        # A byte may be many records, if it is compressed or of a file of rows, which has a kind.
        # Offsets may be without one.
        is_dense = planned.get("compression") not in _PLAIN or {"path", "kind"} <= planned.keys()
        if read > planned["end"] - planned["start"] and not is_dense:
            raise ValueError(f"ledger of {source}: {read} records of {planned!r}")
        samples += valid["samples"]
        quarantined += refused
        filtered += left_out
    if not len(manifest.sources) == len(inputs) == len(ledger) or not inputs.keys() >= {
        *manifest.sources
    }:
        raise ValueError(f"ledger of {[*ledger]}, inputs {[*inputs]}, sources {manifest.sources}")
    found = manifest.num_samples(), manifest.quarantine["records"], sum(manifest.filtered.values())
    if found != (samples, quarantined, filtered):
        raise ValueError(
            f"samples, quarantined and filtered records: {found}, in the ledger"
            f" {(samples, quarantined, filtered)}"
        )


# --- Inputs and ledger of many files: a file of the version, which the manifest names

SOURCES: Final = "SOURCES.arrow"
# Facts of files of rows; other inputs have no such keys.
_OF_ROWS: Final = frozenset({"kind", "layouts"})


def _with_list(manifest: Manifest, folder: Path) -> Manifest:
    """Return the manifest whose inputs and ledger are those of the list in the folder."""
    place = manifest.source_list
    if place is None:
        return manifest
    kept = KeptList(place, lambda: _read_list(manifest, place, folder / SOURCES))
    return manifest.model_copy(
        update={
            "sources": ListedNames(kept),
            "inputs": Listed(kept, FACTS, _input),
            "ledger": Listed(kept, LEDGER_COLUMNS, account_of),
        }
    )


def _read_list(manifest: Manifest, place: ListedFiles, path: Path) -> FileList:
    # Arrow is imported for the few versions that have a list.
    from trainfeed.versions.source_list import read_list

    quarantined, filtered = manifest.quarantine["records"], sum(manifest.filtered.values())
    return read_list(path, place, (manifest.num_samples(), quarantined, filtered))


def _input(facts: dict[str, Any]) -> dict[str, Any]:
    kept = {name: each for name, each in facts.items() if name not in _OF_ROWS or each is not None}
    return {"start": 0, **kept}


def _require_listed(manifest: Manifest) -> None:
    """Refuse a manifest that has inputs beside their list, or no file with the digest of it."""
    if manifest.sources or manifest.inputs or manifest.ledger:
        raise ValueError("sources, inputs and ledger beside a list of them")
    _, digest = manifest.file_digests()[SOURCES]
    if manifest.source_list is None or digest != manifest.source_list.sha256:
        raise ValueError(f"{SOURCES} with another digest than that of the list")
