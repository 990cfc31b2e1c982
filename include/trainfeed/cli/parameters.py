"""``trainfeed parameters``: the values that the function gets in builds of an interval."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Final

import typer

from trainfeed.cli.arguments import (
    Who,
    Why,
    known_folder,
    named_person,
    reason_or_dry_run,
    writable_folder,
)
from trainfeed.cli.named_versions import one_interval
from trainfeed.cli.printing import Message, Part, Result, Table, with_dry_run, with_json
from trainfeed.cli.targets import Target, name_argument
from trainfeed.core.accounts import Decision
from trainfeed.core.config import environment_from_environ
from trainfeed.errors import ConfigError
from trainfeed.pipeline.parameters import (
    Chosen,
    choose_parameters,
    overridden,
    parameters_of,
    parse_parameters,
)
from trainfeed.specification import DatasetSpec, load_spec
from trainfeed.specification.model import as_json
from trainfeed.versions import DatasetFolder

_COLUMNS: Final = ("parameter", "dataset.yaml", "a build of it uses")
_ALL_COLUMNS: Final = ("interval", "parameters", "who", "when", "why")


@with_json
@with_dry_run("Check everything, and change nothing.")
def parameters(
    name: Annotated[str, name_argument("NAME[/INTERVAL]: the data set, or one interval of it.")],
    values: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME=VALUE]…", help="Values for builds of this interval."),
    ] = None,
    *,
    end: Annotated[
        bool, typer.Option("--end", help="Let dataset.yaml count again for this interval.")
    ] = False,
    why: Why = None,
    who: Who = None,
    dry_run: bool = False,
) -> Result:
    """Show or choose the parameters of an interval.

    Without values, what holds is shown; for a data set, every interval with values of its own.

    A choice is a decision about one interval: later builds, backfills and outdated follow it, until
    --end or bring-forward ends it. Nothing is built: an interval that is published is outdated
    then, and the next build says so. Status 1 when a parameter does not fit dataset.yaml.
    """
    target = Target.parse(name, None).of_intervals()
    env = environment_from_environ()
    folder = known_folder(target.name)
    spec = load_spec(env.datasets / folder.name)
    if not values and not end:
        return _shown(spec, folder, target.asked)
    if target.asked is None or (values and end):
        raise ConfigError(
            "expected NAME/INTERVAL, and values or --end, not both; nothing was changed"
        )
    reason = reason_or_dry_run(why, dry_run=dry_run)
    interval = one_interval(spec, target.asked)
    decision = Decision.now(reason, who=named_person(who))
    chosen = choose_parameters(
        spec,
        writable_folder(target.name),
        interval.name,
        parse_parameters(values or ()),
        decision,
        dry_run=dry_run,
    )
    return _told(spec, interval.name, chosen, dry_run=dry_run)


def _shown(spec: DatasetSpec, folder: DatasetFolder, asked: str | None) -> Result:
    if asked is not None:
        interval = one_interval(spec, asked)
        return _told(spec, interval.name, parameters_of(spec, folder, interval.name), dry_run=False)
    found = overridden(folder)
    base = {name: as_json(value) for name, value in spec.preprocess.parameters.items()}
    rows = [[each.interval, _values(each.parameters), each.by, each.at, each.why] for each in found]
    facts = {"dataset": spec.name, "parameters": base, "overrides": [e.to_json() for e in found]}
    line = f"{spec.name}: {_values(base) or 'no parameters'} in dataset.yaml"
    return Result(facts, [Message(line), Table(_ALL_COLUMNS, rows)] if rows else [Message(line)])


def _told(spec: DatasetSpec, interval: str, chosen: Chosen, *, dry_run: bool) -> Result:
    facts = {"dataset": spec.name, "interval": interval, **chosen.to_json(), "dry_run": dry_run}
    return Result(facts, _parts(spec, interval, chosen))


def _parts(spec: DatasetSpec, interval: str, chosen: Chosen) -> Iterator[Part]:
    base = spec.preprocess.parameters
    yield Table(
        _COLUMNS, [[name, as_json(base[name]), as_json(chosen.values[name])] for name in base]
    )
    told = "dataset.yaml counts" if chosen.override is None else chosen.override.told
    yield Message(f"{spec.name}/{interval}: {told}")


def _values(values: dict[str, Any]) -> str:
    return " ".join(f"{name}={value}" for name, value in sorted(values.items()))
