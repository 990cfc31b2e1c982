"""``trainfeed models``: lists, judges, promotes, rolls back and transfers models of trainings."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from trainfeed.cli.arguments import Who, named_person, readable_environment, target_path
from trainfeed.cli.command_groups import command
from trainfeed.cli.named_versions import intervals_asked
from trainfeed.cli.printing import DamagedEntries, Result, Table, program, table, with_json
from trainfeed.cli.targets import RangeWord, Target, name_argument
from trainfeed.core.accounts import person
from trainfeed.core.config import Environment, environment_from_environ
from trainfeed.errors import ConfigError, NotFoundError
from trainfeed.files.stores import Location
from trainfeed.files.stores.folder_transfer import download
from trainfeed.specification import check_name, load_spec
from trainfeed.training.launch import train
from trainfeed.training.models import (
    CANDIDATE,
    PROD,
    ChosenModel,
    Model,
    ModelFolder,
    ModelsFolder,
    RemovedModel,
    current_version,
    history,
    known_model,
    model_version,
    parse_version,
    promote,
    rollback,
)
from trainfeed.training.promotion import evaluate
from trainfeed.training.tracking import deliver_change
from trainfeed.training.transfers import missing_upload, upload_version
from trainfeed.versions import require_writable_root

# --- Models and their versions as rows of a table

VERSION_COLUMNS: Final[tuple[str, ...]] = ("version", "alias", "job", "metrics", "bytes")
REMOVED_COLUMNS: Final[tuple[str, ...]] = (
    "version", "job", "metrics", "bytes", "at", "who", "why"
)  # fmt: skip


def model_row(folder: ModelFolder, damaged: DamagedEntries) -> dict[str, Any]:
    """Return a model: how many versions it has, and those that its main aliases point to."""
    row: dict[str, Any] = {"model": folder.name, "versions": len(folder.versions())}
    return row | _pointed(folder, (CANDIDATE, PROD), damaged)


def version_rows(folder: ModelFolder, damaged: DamagedEntries) -> list[dict[str, Any]]:
    """Return the versions of a model, the newest first; ``damaged`` gets those it cannot read."""
    pointed = _pointed(folder, folder.aliases(), damaged)
    rows = []
    for version in map(model_version, reversed(folder.versions())):
        row = {**dict.fromkeys(VERSION_COLUMNS), "version": version}
        with damaged.named(f"{folder.name}/{version}", row):
            row |= Model.open(folder, parse_version(version)).to_json()
        rows.append({**row, "alias": [name for name in pointed if pointed[name] == version]})
    lost = (_lost_row(folder, number, damaged) for number in reversed(folder.lost_versions()))
    return [*rows, *lost]


def _lost_row(folder: ModelFolder, number: int, damaged: DamagedEntries) -> dict[str, Any]:
    version = model_version(number)
    row = {**dict.fromkeys(VERSION_COLUMNS), "version": version}
    with damaged.named(f"{folder.name}/{version}", row):
        _require_there(folder, number)
    return row


def _require_there(folder: ModelFolder, number: int) -> None:
    if number in folder.lost_versions():
        raise NotFoundError(
            f"expected its folder, or {folder.removal(number)} that tells who removed it, and both"
            " are gone; bring one of them back from a backup; its number is not used again"
        )


def removed_rows(folder: ModelFolder, damaged: DamagedEntries) -> list[dict[str, Any]]:
    """Return the versions that retention removed, the newest first; ``damaged`` as above."""
    rows = []
    for number in reversed(folder.removed_versions()):
        row = {**dict.fromkeys(REMOVED_COLUMNS), "version": model_version(number)}
        with damaged.named(f"{folder.name}/{model_version(number)}", row):
            removed = RemovedModel.read(folder, number)
            row |= {} if removed is None else _flat(removed)
        rows.append(row)
    return rows


def _flat(removed: RemovedModel) -> dict[str, Any]:
    facts = removed.to_json()
    return {**facts, **facts.pop("removed")}


def _pointed(
    folder: ModelFolder, aliases: Iterable[str], damaged: DamagedEntries
) -> dict[str, str | None]:
    """Return alias → version; None, and ``damaged``, for an alias with a damaged history."""
    pointed: dict[str, str | None] = {}
    for alias in aliases:
        pointed[alias] = None
        with damaged.named(f"{folder.name}@{alias}", pointed):
            pointed[alias] = current_version(folder, alias)
    return pointed


def aliases_of(folder: ModelFolder, number: int) -> list[str]:
    """Return the aliases that point to a version."""
    version = model_version(number)
    return [alias for alias in folder.aliases() if current_version(folder, alias) == version]


# --- ``trainfeed models``: lists, judges, promotes, rolls back and transfers models of trainings

app = typer.Typer(
    help="List, judge, promote and copy the models of trainings.",
    epilog="Example: trainfeed models show flights@prod",
    no_args_is_help=True,
)

ModelName = Annotated[
    str, typer.Argument(help="NAME/vNNNN, NAME@prod or NAME@candidate; NAME alone is NAME@prod.")
]
Why = Annotated[str, typer.Option("--why", help="The reason, which the history keeps.")]

_MODELS: Final[tuple[str, ...]] = ("model", "versions", CANDIDATE, PROD)
_GATE: Final = ("metric", "value", "min", "max", "promoted", "max_worse", "passed")
_CHANGES: Final = ("alias", "kind", "version", "at", "by", "why")


@command(app, "ls", "models ls flights")
@with_json
def list_models(
    name: Annotated[str | None, typer.Argument(help="A model; all of them by default.")] = None,
    *,
    removed: Annotated[
        bool, typer.Option("--removed", help="Those that retention removed: when, by whom, why.")
    ] = False,
) -> Result:
    """List the models, or the versions of one, the newest first.

    Status 3 when one is damaged; the others are listed all the same.
    """
    models, damaged = ModelsFolder(Path(readable_environment().root)), DamagedEntries()
    if name is None:
        if removed:
            raise ConfigError("expected the name of a model beside --removed, got none")
        rows = [model_row(models.model(each), damaged) for each in models.names()]
        text = table(_MODELS, rows, f"no training has made a model in {models.path} yet")
        return Result(rows, text, status=damaged.status)
    folder = models.known(name)
    if removed:
        rows = removed_rows(folder, damaged)
        text = table(REMOVED_COLUMNS, rows, f"no version of {name} was removed")
        return Result(rows, text, status=damaged.status)
    rows = version_rows(folder, damaged)
    text = table(VERSION_COLUMNS, rows, f"model {name} has no version")
    number = len(folder.removed_versions())
    more = [f"{number} more were removed: {program()} models ls {name} --removed"] if number else ()
    return Result(rows, text, more, damaged.status)


@command(app, "show", "models show flights/v0003")
@with_json
def show(target: ModelName) -> Result:
    """Show a version of a model: job, data, metrics, files.

    And the history of its aliases.
    Also of one that retention removed: then who did, when, and by which rule.
    """
    folder, number = _target(target, Path(readable_environment().root))
    model = known_model(folder, number)
    changes = [
        {**change.to_json(), "alias": alias}
        for alias in folder.aliases()
        for change in history(folder, alias)
    ]
    shown = {**model.to_json(), "alias": aliases_of(folder, number)}
    rows = [(file.name, file.bytes, file.sha256) for file in model.manifest.files]
    people = [{**each, "by": person(each["by"], each["account"] or each["by"])} for each in changes]
    return Result(
        {**shown, "manifest": model.manifest.model_dump(), "history": changes},
        [
            Table.of_pairs({**shown, "code": model.manifest.job.code}),
            Table(("file", "bytes", "SHA-256"), rows),
            Table(_CHANGES, people),
        ],
    )


@command(app, "evaluate", "models evaluate flights/2013-01-03")
@with_json
def judge(
    name: Annotated[str, name_argument("NAME/INTERVAL of a data set.")],
    asked: RangeWord = None,
) -> Result:
    """Compare the metrics of a training with its gate.

    If they pass, its model becomes the candidate.
    Trains first if the interval has no finished training. Status 1: the gate is closed.
    """
    target = Target.parse(name, asked).to_change().of_intervals()
    env = environment_from_environ()
    spec = load_spec(env.datasets / check_name(target.name))
    chosen = [] if target.asked is None else intervals_asked(spec, target.asked)
    if len(chosen) != 1:
        raise ConfigError(f"expected NAME/INTERVAL of one interval, got {str(target)[:80]!r}")
    report = evaluate(spec, env, chosen[0].name, train(spec, env, chosen[0])["job"])
    gate = report["gate"]
    pairs = Table.of_pairs({**report, "gate": gate.get("note")})
    follows = f"next: {program()} models promote {report['model']}@{CANDIDATE} --why WHY"
    return Result(report, [pairs, Table(_GATE, gate.get("metrics", ()))], [follows])


@command(app, "promote", "models promote flights/v0003 --why 'AUC 0.8'")
@with_json
def promote_model(target: ModelName, *, why: Why, who: Who = None) -> Result:
    """Point prod to a version of a model.

    Its files are verified first; the gate is not checked again.
    """
    env = _writable_environment()
    folder, number = _target(target, Path(env.root))
    change, is_new = promote(folder, PROD, number, _reason(why), who=named_person(who))
    verdict = "promoted" if is_new else "unchanged"
    return _changed(folder, change.version, verdict, env)


@command(app, "rollback", "models rollback flights/v0003 --why 'slow'")
@with_json
def rollback_model(
    target: Annotated[
        str, typer.Argument(help="NAME, or NAME/vNNNN: only if prod points to that version.")
    ],
    *,
    why: Why,
    who: Who = None,
) -> Result:
    """Point prod to the version before the current one."""
    env = _writable_environment()
    name, slash, version = target.partition("/")
    folder = ModelsFolder(Path(env.root)).known(name)
    expected = parse_version(version) if slash else None
    change, _ = rollback(folder, _reason(why), expected=expected, who=named_person(who))
    return _changed(folder, change.version, "rolled back", env)


@command(app, "upload", "models upload flights@prod /mnt/models")
@with_json
def upload_model(
    target: ModelName,
    to: Annotated[str, typer.Argument(help="Folder of models: a path, or a URI such as hdfs://….")],
) -> Result:
    """Copy a version of a model to a store.

    To TO/NAME/VERSION: complete, or not at all.
    """
    folder, number = _target(target, Path(readable_environment().root))
    return Result(upload_version(folder, number, Location.parse(to)))


@command(app, "download", "models download /mnt/models/resnet resnet")
@with_json
def download_model(
    source: Annotated[
        str, typer.Argument(metavar="FROM", help="A folder: a path, or a URI such as hdfs://….")
    ],
    folder: Annotated[
        Path,
        typer.Argument(help="The new folder; the one above it exists.", parser=target_path),
    ],
) -> Result:
    """Copy a folder from a store to this machine.

    Complete, or not at all.
    """
    return Result(download(Location.parse(source), folder).to_json())


def _changed(folder: ModelFolder, version: str, verdict: str, env: Environment) -> Result:
    delivered = deliver_change(folder, env.datasets, lambda _: env)
    return Result(
        {
            "model": folder.name,
            "prod": version,
            "verdict": verdict,
            "path": str(folder.version(parse_version(version))),
            **({"tracking": delivered} if delivered else {}),
            **missing_upload(folder, env.datasets, version),
        }
    )


def _writable_environment() -> Environment:
    env = environment_from_environ()
    require_writable_root(env)
    return env


def _reason(why: str) -> str:
    if not why.strip():
        raise ConfigError("expected a reason after --why, got a blank one; nothing was changed")
    return why


def _target(text: str, root: Path) -> tuple[ModelFolder, int]:
    """Return the model and the version that ``NAME/vNNNN``, ``NAME@ALIAS`` or ``NAME`` names."""
    chosen = ChosenModel.parse(ModelsFolder(root), text)
    return chosen.folder, chosen.resolve()
