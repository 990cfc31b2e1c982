"""``trainfeed verify``, ``head`` and ``stats``: files, samples and statistics of versions."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from trainfeed.cli.arguments import tell_withdrawal
from trainfeed.cli.file_contents import samples_result
from trainfeed.cli.file_stats import statistics_table
from trainfeed.cli.ls import gaps
from trainfeed.cli.named_versions import KnownTarget, known
from trainfeed.cli.printing import Part, Result, program, progress, with_json
from trainfeed.cli.targets import RangeWord, Target, name_argument
from trainfeed.core.intervals import parse_range
from trainfeed.core.printable_text import printable
from trainfeed.errors import ConfigError, FormatError, NotFoundError, StorageError
from trainfeed.readers import DatasetReader
from trainfeed.versions import Version, published_in
from trainfeed.versions.history import missing_marks
from trainfeed.versions.layout import generation_name
from trainfeed.versions.retire import generation_for_readers, told_retirements

# --- ``trainfeed verify``: whether every file of the published versions is intact


@with_json
def verify(
    name: Annotated[
        str, name_argument("NAME[@TAG][/RANGE[/gNNNN]]; NAME alone is all its versions.")
    ],
    asked: RangeWord = None,
) -> Result:
    """Compare every file of a version with its manifest.

    A target without an interval is all versions of the data set.

    Status 3 when one differs, 1 when one cannot be read or is missing in a range.
    """
    found = known(Target.parse(name, asked))
    checked = _all_checked(_places(found))
    if found.asked is not None and found.generation is not None:
        tell_withdrawal(found.folder, found.asked, found.generation)
    damaged = [report["target"] for report in checked if report["problems"]]
    unreadable = any(report["unreadable"] for report in checked)
    return Result(
        checked if found.is_range() else checked[0],
        map(_lines, checked),
        _about_verified(found, damaged, is_unreadable=unreadable),
        Result.DAMAGED if damaged else Result.FAILED if unreadable else 0,
    )


def _lines(report: dict[str, Any]) -> str:
    unreadable = [f"could not be read: {reason}" for reason in report["unreadable"]]
    return "\n".join([*report["problems"], *unreadable]) or f"{report['target']} is intact"


def _about_verified(
    found: KnownTarget, damaged: list[str], *, is_unreadable: bool
) -> Iterator[str]:
    if found.asked is None and found.tag is None:
        yield from told_retirements(found.folder)
        yield from (missing.told for missing in missing_marks(found.folder))
    if damaged:
        name, interval, *_ = damaged[0].split("/")
        again = f"{program()} build {name} --interval {interval} --rebuild WHY"
        yield (
            f"repair it: {program()} repair {damaged[0]}; or build it again, as the next"
            f" generation: {again}"
        )
    elif is_unreadable:
        yield (
            "all files that could be read are intact; for the others, ask as the account that"
            " builds, or ask again"
        )
    elif (found.asked is not None or found.tag is not None) and found.generation is None:
        yield from gaps(found.coverage())


def _places(target: KnownTarget) -> list[tuple[str, Path]]:
    """Return the versions of a target, each with its name and folder."""
    folder, asked = target.folder, target.asked
    if target.tag is not None:
        return [(f"{folder.name}/{each.name}", each.path) for each in target.coverage().versions]
    if asked is not None and not target.is_range():
        number = target.generation or generation_for_readers(folder, asked)
        suffix = f"/{generation_name(number)}" if target.generation else ""
        return [(f"{folder.name}/{asked}{suffix}", folder.version(asked, number))]
    if asked is None:
        found = [(name, n) for name in folder.intervals() for n in folder.generations(name)]
    else:
        found = list(published_in(folder, parse_range(asked)).items())
        if not found:
            target.coverage().require("fail")
    if not found:
        raise NotFoundError(
            f"data set {folder.name!r} has no published version in {folder.path}; build one:"
            f" trainfeed build {folder.name} --interval I"
        )
    return [
        (f"{folder.name}/{name}/{generation_name(number)}", folder.version(name, number))
        for name, number in found
    ]


def _all_checked(places: list[tuple[str, Path]]) -> list[dict[str, Any]]:
    checked = []
    with progress("verifying") as tell:
        for number, (name, place) in enumerate(places):
            tell(len(places), number)
            checked.append(_checked(name, place))
    return checked


def _checked(target: str, path: Path) -> dict[str, Any]:
    found: list[FormatError | StorageError] = []
    try:
        found += Version.open(path).problems()
    except NotFoundError:
        raise
    except (FormatError, StorageError) as error:
        found.append(error)
    return {
        "target": target,
        "problems": [str(each) for each in found if isinstance(each, FormatError)],
        "unreadable": [str(each) for each in found if isinstance(each, StorageError)],
    }


# --- ``trainfeed head`` and ``stats``: samples and statistics of a published version

_TRAIN: Final = "train"

VersionName = Annotated[str, name_argument("NAME/INTERVAL[/gNNNN], or NAME@TAG[/INTERVAL].")]


@with_json
def head(
    name: VersionName,
    asked: RangeWord = None,
    *,
    split: Annotated[
        str | None, typer.Option(help="Split; train otherwise, or the largest.")
    ] = None,
    number: Annotated[int, typer.Option("-n", "--number", min=0, help="How many.")] = 10,
) -> Result:
    """Show the first samples of a version."""
    target = Target.parse(name, asked)
    version = known(target).one()
    reader = DatasetReader([version], split or _usual_split(version))
    samples = islice(reader.reader()(), number)
    title = printable(f"{target}, split {reader.split}: {reader.num_samples} samples")
    return samples_result(samples, title)


@with_json
def stats(
    name: VersionName,
    asked: RangeWord = None,
    *,
    split: Annotated[str | None, typer.Option(help="Split; all of them otherwise.")] = None,
) -> Result:
    """Show the statistics of every field of a version.

    Count, nulls, range, mean and more, as they were published with the version.
    """
    target = Target.parse(name, asked)
    version = known(target).one()
    found = version.statistics()
    if split is not None:
        version.num_samples(split)
        found = {split: found[split]}
    return Result(found, _statistics(target, version, found))


def _statistics(target: Target, version: Version, found: dict[str, Any]) -> Iterator[Part]:
    for name, result in found.items():
        yield printable(f"{target}, split {name}: {version.num_samples(name)} samples")
        yield statistics_table(result, version.schema)


def _usual_split(version: Version) -> str:
    splits = version.manifest.splits
    if not splits:
        raise ConfigError(f"expected a version with at least one split, got none in {version.path}")
    return _TRAIN if _TRAIN in splits else max(splits, key=lambda name: splits[name].samples)
