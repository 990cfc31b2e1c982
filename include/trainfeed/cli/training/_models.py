"""``trainfeed models``: lists, judges, promotes and rolls back the models of trainings."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final

import typer

from trainfeed.cli._look_target import readable_environment
from trainfeed.cli._printing import print_json, print_mapping, print_message, print_rows, program
from trainfeed.config import Environment, environment_from_environ
from trainfeed.dataset import require_root
from trainfeed.errors import ConfigError, NotFoundError
from trainfeed.intervals import intervals_in, parse_range
from trainfeed.models import (
    CANDIDATE,
    PROD,
    Model,
    ModelFolder,
    ModelsFolder,
    current,
    history,
    model_version,
    parse_version,
    promote,
    rollback,
)
from trainfeed.specification import check_name, load_spec
from trainfeed.tracking import deliver_change
from trainfeed.training.launch import train
from trainfeed.training.promotion import evaluate

__all__ = ["app"]

app = typer.Typer(
    help="List the models of trainings, judge a training, promote a model, and roll back.",
    epilog="Example: trainfeed models show flights@prod",
    no_args_is_help=True,
)

Target = Annotated[
    str, typer.Argument(help="NAME/vNNNN, NAME@prod or NAME@candidate; NAME alone is NAME@prod.")
]
Why = Annotated[str, typer.Option("--why", help="The reason, which the history keeps.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]

_MODELS: Final[tuple[str, ...]] = ("model", "versions", CANDIDATE, PROD)
_VERSIONS: Final[tuple[str, ...]] = ("version", "alias", "job", "metrics", "bytes")
_GATE: Final = ("metric", "value", "min", "max", "promoted", "max_worse", "passed")
_CHANGES: Final = ("alias", "kind", "version", "at", "by", "why")


@app.command("ls", epilog="Example: trainfeed models ls flights")
def list_models(
    name: Annotated[str | None, typer.Argument(help="A model; all of them by default.")] = None,
    *,
    as_json: Json = False,
) -> None:
    """List the models, or the versions of one, the newest first."""
    models = ModelsFolder(Path(readable_environment().root))
    columns = _MODELS if name is None else _VERSIONS
    if name is None:
        rows = [_row(models.model(each)) for each in models.names()]
    else:
        rows = _versions(models.known(name))
    if as_json:
        print_json(rows)
    elif rows:
        print_rows(columns, [[row[column] for column in columns] for row in rows])
    else:
        print_message(f"no training has made a model in {models.path} yet")


@app.command("show", epilog="Example: trainfeed models show flights/v0003")
def show(target: Target, *, as_json: Json = False) -> None:
    """Show a version of a model: job, data, metrics, files, and the history of its aliases."""
    folder, number = _target(target, Path(readable_environment().root))
    model = Model.open(folder, number)
    changes = [
        {"alias": alias, **change.model_dump(exclude={"request"})}
        for alias in folder.aliases()
        for change in history(folder, alias)
    ]
    shown = {**model.to_json(), "alias": _aliases_of(folder, number)}
    if as_json:
        print_json({**shown, "manifest": model.manifest.model_dump(), "history": changes})
        return
    print_mapping({**shown, "code": model.manifest.job.code})
    rows = [(file.name, file.bytes, file.sha256) for file in model.manifest.files]
    print_rows(("file", "bytes", "SHA-256"), rows)
    print_rows(_CHANGES, [[change[column] for column in _CHANGES] for change in changes])


@app.command("evaluate", epilog="Example: trainfeed models evaluate flights/2013-01-03")
def judge(
    target: Annotated[str, typer.Argument(help="NAME/INTERVAL of a data set.")],
    *,
    as_json: Json = False,
) -> None:
    """Compare the metrics of a training with its gate; if they pass, it becomes the candidate.

    Trains first if the interval has no finished training. Status 1: the gate is closed.
    """
    name, _, asked = target.partition("/")
    env = environment_from_environ()
    spec = load_spec(env.datasets / check_name(name))
    chosen = intervals_in(spec.schedule_model(), parse_range(asked)) if asked else []
    if len(chosen) != 1:
        raise ConfigError(f"expected NAME/INTERVAL of one interval, got {target[:80]!r}")
    report = evaluate(spec, env, chosen[0].name, train(spec, env, chosen[0])["job"])
    if as_json:
        print_json(report)
    else:
        gate = report["gate"]
        print_mapping({**report, "gate": gate.get("note")})
        rows = gate.get("metrics", ())
        print_rows(_GATE, [[row[column] for column in _GATE] for row in rows])
    print_message(f"next: {program()} models promote {report['model']}@{CANDIDATE} --why WHY")


@app.command("promote", epilog="Example: trainfeed models promote flights/v0003 --why 'AUC 0.8'")
def promote_model(target: Target, *, why: Why, as_json: Json = False) -> None:
    """Point prod to a version, whose files are verified first; the gate is not checked again."""
    env = _writable_environment()
    folder, number = _target(target, Path(env.root))
    change, is_new = promote(folder, PROD, number, _reason(why))
    verdict = "promoted" if is_new else "unchanged"
    _print_change(folder, change.version, verdict, env, as_json=as_json)


@app.command("rollback", epilog="Example: trainfeed models rollback flights/v0003 --why 'slow'")
def rollback_model(
    target: Annotated[
        str, typer.Argument(help="NAME, or NAME/vNNNN: only if prod leads to that version.")
    ],
    *,
    why: Why,
    as_json: Json = False,
) -> None:
    """Point prod to the version before the current one."""
    env = _writable_environment()
    name, slash, version = target.partition("/")
    folder = ModelsFolder(Path(env.root)).known(name)
    expected = parse_version(version) if slash else None
    change, _ = rollback(folder, _reason(why), expected=expected)
    _print_change(folder, change.version, "rolled back", env, as_json=as_json)


def _print_change(
    folder: ModelFolder, version: str, verdict: str, env: Environment, *, as_json: bool
) -> None:
    path = folder.version(parse_version(version))
    delivered = deliver_change(folder, env.datasets, lambda _: env)
    report = {
        "model": folder.name,
        "prod": version,
        "verdict": verdict,
        "path": str(path),
        **({"tracking": delivered} if delivered else {}),
    }
    print_json(report) if as_json else print_mapping(report)


def _writable_environment() -> Environment:
    env = environment_from_environ()
    require_root(Path(env.root), env.root_setting)
    return env


def _reason(why: str) -> str:
    if not why.strip():
        raise ConfigError("expected a reason after --why, got a blank one; nothing was changed")
    return why


def _target(text: str, root: Path) -> tuple[ModelFolder, int]:
    """Return the model and the version that ``NAME/vNNNN``, ``NAME@ALIAS`` or ``NAME`` names."""
    name, slash, version = text.partition("/")
    name, at, alias = name.partition("@")
    if slash and at:
        raise ConfigError(f"expected NAME/vNNNN or NAME@ALIAS, got {text[:80]!r}")
    folder = ModelsFolder(root).known(name)
    if slash:
        return folder, parse_version(version)
    model = current(folder, alias or PROD)
    if model is None:
        known = ", ".join(model_version(number) for number in folder.versions()[-5:])
        raise NotFoundError(
            f"expected a version of model {name} that {alias or PROD} leads to, there is none;"
            f" name one: {known}"
        )
    return folder, model.manifest.version


def _row(folder: ModelFolder) -> dict[str, Any]:
    leads = {alias: current(folder, alias) for alias in (CANDIDATE, PROD)}
    return {
        "model": folder.name,
        "versions": len(folder.versions()),
        **{
            alias: None if model is None else model_version(model.manifest.version)
            for alias, model in leads.items()
        },
    }


def _versions(folder: ModelFolder) -> list[dict[str, Any]]:
    return [
        {**Model.open(folder, number).to_json(), "alias": _aliases_of(folder, number)}
        for number in reversed(folder.versions())
    ]


def _aliases_of(folder: ModelFolder, number: int) -> list[str]:
    return [
        alias
        for alias in folder.aliases()
        if (model := current(folder, alias)) is not None and model.manifest.version == number
    ]
