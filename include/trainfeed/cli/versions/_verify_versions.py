"""``trainfeed verify``: whether every file of the published versions is intact."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from trainfeed.cli._known_datasets import complete_target
from trainfeed.cli._look_target import LookTarget, parse_target
from trainfeed.cli._printing import print_json, print_message, printable_lines, program
from trainfeed.cli._told_withdrawals import tell_withdrawal
from trainfeed.cli.file import progress
from trainfeed.cli.versions._look import tell_gaps
from trainfeed.dataset import Version, published_in
from trainfeed.dataset.history import missing_marks
from trainfeed.dataset.layout import generation_name
from trainfeed.dataset.retire import generation_for_readers, told_retirements
from trainfeed.errors import FormatError, NotFoundError, StorageError
from trainfeed.intervals import parse_range

__all__ = ["verify"]

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def verify(
    target: Annotated[
        str,
        typer.Argument(
            help="NAME for all its versions, NAME/RANGE, NAME@TAG, NAME/INTERVAL/gNNNN.",
            autocompletion=complete_target,
        ),
    ],
    *,
    as_json: Json = False,
) -> None:
    """Compare every file of a version, or of all, with its manifest.

    Status 3 when one differs, 1 when one cannot be read or is missing in a range.
    """
    found = parse_target(target)
    checked = _all_checked(_places(found))
    if found.asked is not None and found.generation is not None:
        tell_withdrawal(found.folder, found.asked, found.generation)
    if as_json:
        print_json(checked if found.is_range() else checked[0])
    else:
        for report in checked:
            unreadable = [f"could not be read: {reason}" for reason in report["unreadable"]]
            problems = "\n".join([*report["problems"], *unreadable])
            typer.echo(printable_lines(problems or f"{report['target']} is intact"))
    if found.asked is None and found.tag is None:
        for told in told_retirements(found.folder):
            print_message(told)
        for missing in missing_marks(found.folder):
            print_message(missing.told)
    _end_of_verify(checked)
    if (found.asked is not None or found.tag is not None) and found.generation is None:
        tell_gaps(found.coverage())


def _end_of_verify(checked: list[dict[str, Any]]) -> None:
    if damaged := [report["target"] for report in checked if report["problems"]]:
        name, interval, *_ = damaged[0].split("/")
        again = f"{program()} build {name} --interval {interval} --rebuild WHY"
        print_message(
            f"repair it: {program()} repair {damaged[0]}; or build it again, as the next"
            f" generation: {again}"
        )
        raise typer.Exit(3)
    if any(report["unreadable"] for report in checked):
        print_message(
            "all files that could be read are intact; for the others, ask as the account that"
            " builds, or ask again"
        )
        raise typer.Exit(1)


def _places(target: LookTarget) -> list[tuple[str, Path]]:
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
