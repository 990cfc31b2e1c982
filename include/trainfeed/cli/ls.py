"""``trainfeed ls`` and ``show``: the published versions; nothing heavy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from trainfeed.cli.arguments import known_folder, newer_withdrawals, readable_environment
from trainfeed.cli.completion import specified
from trainfeed.cli.printing import DamagedEntries, Part, Result, Table, program, with_json
from trainfeed.cli.targets import RangeWord, Target, name_argument
from trainfeed.core.config import Environment
from trainfeed.errors import AccessDeniedError, ConfigError
from trainfeed.versions import DatasetFolder
from trainfeed.versions.root import data_sets_of

if TYPE_CHECKING:
    from trainfeed.versions import Coverage, Version


_DATASET_COLUMNS: Final[tuple[str, ...]] = ("dataset", "intervals", "newest", "state")
_OPTIONAL: Final = (
    "waivers",
    "empty_because",
    "passed_over",
    "uploads",
    "references",
    "schema_changes",
    "shard_skew",
)
# Counts of records that came at another time than they should.
_LATE: Final = ("late", "future", "unstamped", "refused")
_CLOSED: Final = "closed to this account"
_COLUMNS = ("interval", "generation", "samples", "quarantined", "filtered", "bytes", "content")


@with_json
def ls(
    name: Annotated[
        str | None, name_argument("NAME[@TAG][/RANGE]; by default all data sets.")
    ] = None,
    asked: RangeWord = None,
) -> Result:
    """List data sets, or the published versions of one.

    Status 3 when a version is damaged; the others are listed all the same.
    """
    env = readable_environment()
    if name is None:
        rows = _datasets(env)
        return Result(rows, Table(_DATASET_COLUMNS, rows))
    target = Target.parse(name, asked)
    if target.generation is not None:
        raise ConfigError(
            f"expected NAME or NAME/RANGE, got {str(target)!r}: a list is of intervals; for one"
            f" version: trainfeed show {target}"
        )
    if target.tag is None and target.asked is None:
        return _listed(known_folder(target.name))
    # As below: the list of data sets opens no version, and does not wait for Arrow.
    from trainfeed.cli.named_versions import known

    return _range(known(target).coverage())


@with_json
def show(
    name: Annotated[
        str, name_argument("NAME[@TAG][/RANGE[/gNNNN]]; of several versions there is a list.")
    ],
    asked: RangeWord = None,
) -> Result:
    """Show the manifest of one version, or list versions."""
    from trainfeed.cli.named_versions import known

    found = known(Target.parse(name, asked))
    if found.asked is None and found.tag is None:
        return _listed(found.folder)
    if found.is_range():
        return _range(found.coverage())
    version = found.one()
    is_newest = found.generation is None and found.tag is None
    newer = newer_withdrawals(found.folder, [version.path.parent.name]) if is_newest else ()
    manifest = version.manifest.to_json()
    return Result(manifest, _version_text(version, manifest), newer)


def _version_text(version: Version, manifest: Mapping[str, Any]) -> Iterator[Part]:
    # The lists do without the specification, from which the words of gates are.
    from trainfeed.cli.named_versions import GATE_COLUMNS, gate_rows
    from trainfeed.versions.bucket_objects import place_in_bucket

    row, quarantine, interval = _row(version), manifest["quarantine"], manifest["interval"]
    late = {name: count for name, count in manifest["late"].items() if name in _LATE and count}
    bucket = place_in_bucket(version.path)
    pairs = {
        "version": version.name,
        "path": version.path,
        # Where its shards are, if the path has none.
        **({"bucket": bucket.folder.uri} if bucket is not None else {}),
        "interval": f"{interval['start']} to {interval['end']}",
        "samples": row["samples"],
        "quarantined": _counted(row["quarantined"], quarantine["reasons"]),
        "filtered": _counted(row["filtered"], manifest["filtered"]),
        "bytes": row["bytes"],
        "content_digest": manifest["content_digest"],
        "fingerprint": manifest["fingerprint"],
        **({"late": late} if late else {}),
        **{name: manifest[name] for name in _OPTIONAL if manifest.get(name)},
    }
    if skew := manifest.get("shard_skew"):
        pairs["shard_skew"] = {name: f"{ratio:.3g}" for name, ratio in skew.items()}
    yield Table.of_pairs(pairs)
    if manifest["gates"]:
        yield Table(GATE_COLUMNS, gate_rows(manifest["gates"]))


def _counted(number: int, reasons: Mapping[str, int]) -> str:
    told = ", ".join(f"{reason} {count}" for reason, count in reasons.items())
    return f"{number} ({told})" if told else str(number)


def _listed(folder: DatasetFolder) -> Result:
    damaged = DamagedEntries()
    rows = _versions(folder, damaged)
    return Result(rows, Table(_COLUMNS, rows), _about_list(folder, rows), damaged.status)


def _about_list(folder: DatasetFolder, rows: list[dict[str, Any]]) -> Iterator[str]:
    from trainfeed.versions.retire import told_retirements

    yield from told_retirements(folder)
    if not rows:
        hint = f"build one: {program()} build {folder.name} --interval I"
        yield f"{folder.name} has no published version yet; {hint}"
    yield from newer_withdrawals(folder, folder.intervals())


def _range(found: Coverage) -> Result:
    if not found.versions:
        found.require("fail")
    rows = [_row(version) for version in found.versions]
    newer = newer_withdrawals(found.folder, [row["interval"] for row in rows])
    return Result(rows, Table(_COLUMNS, rows), chain(newer, gaps(found)))


def gaps(found: Coverage) -> Iterator[str]:
    """Yield lines about the skipped intervals and accepted holes of a range.

    Raises:
        WindowIncompleteError: Intervals are missing; it says who withdrew their versions.
    """
    for skip in found.skipped:
        yield f"{skip.interval} was decided to be left out on {skip.at}: {skip.why}"
    for hole in found.accepted:
        yield f"{hole.range} is in no version, {hole.told}"
    found.require("fail")


def _datasets(env: Environment) -> list[dict[str, Any]]:
    """Return every data set that has a specification, a version, or both."""
    known, published = specified(env), data_sets_of(Path(env.root))
    rows = []
    for name in sorted({*known, *published}):
        row: dict[str, Any] = {"dataset": name, "intervals": "", "newest": "", "state": _CLOSED}
        with suppress(AccessDeniedError):
            intervals = _intervals(DatasetFolder(Path(env.root), name))
            row["intervals"] = len(intervals)
            row["newest"] = intervals[-1] if intervals else ""
            row["state"] = _state(name in known, bool(intervals))
        rows.append(row)
    return rows


def _intervals(folder: DatasetFolder) -> list[str]:
    return [name for name in folder.intervals() if folder.readable_generation(name)]


def _state(is_specified: bool, is_built: bool) -> str:
    state = "published" if is_built else "not built yet"
    return state if is_specified else f"{state}, without a specification here"


def _versions(folder: DatasetFolder, damaged: DamagedEntries) -> list[dict[str, Any]]:
    from trainfeed.versions import Version

    rows = []
    for name in _intervals(folder):
        row = {**dict.fromkeys(_COLUMNS), "interval": name}
        with damaged.named(f"{folder.name}/{name}", row):
            row |= _row(Version.resolve(folder, name))
        rows.append(row)
    return rows


def _row(version: Version) -> dict[str, Any]:
    manifest = version.manifest
    return {
        "interval": version.path.parent.name,
        "generation": version.path.name,
        "samples": manifest.num_samples(),
        "quarantined": manifest.quarantine["records"],
        "filtered": sum(manifest.filtered.values()),
        "bytes": sum(num_bytes for num_bytes, _ in manifest.file_digests().values()),
        "content": manifest.content_digest[:12],
    }
