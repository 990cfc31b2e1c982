"""The parameters of the function for one interval: of dataset.yaml, or chosen by a person."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from trainfeed.core.accounts import Decision
from trainfeed.core.intervals import Interval
from trainfeed.errors import ConfigError, SpecError
from trainfeed.specification import DatasetSpec
from trainfeed.specification.load import read_yaml
from trainfeed.specification.messages import RefusedError
from trainfeed.specification.model import as_json
from trainfeed.specification.names import check_name, cut
from trainfeed.versions import DatasetFolder
from trainfeed.versions.overrides import Override, override_of, write_override


def interval_spec(spec: DatasetSpec, folder: DatasetFolder, interval: Interval) -> DatasetSpec:
    """Return the specification of one interval: its source, and the parameters chosen for it.

    Args:
        spec: The data set.
        folder: The data set below the publication root.
        interval: The interval.

    Raises:
        ConfigError: dataset.yaml has no such parameter any more, or one of another type.
        FormatError: The file of the decision is damaged.
        StorageError: The publication root refused or failed.
    """
    return _with_chosen(spec.for_interval(interval.start), folder, interval.name)


def _with_chosen(spec: DatasetSpec, folder: DatasetFolder, interval: str) -> DatasetSpec:
    """Return a specification with the parameters that were chosen for an interval.

    Raises:
        ConfigError: dataset.yaml has no such parameter any more, or one of another type.
        FormatError: The file of the decision is damaged.
        StorageError: The publication root refused or failed.
    """
    chosen = override_of(folder, interval)
    if chosen is None:
        return spec
    return spec.with_parameters(
        chosen.parameters,
        f"{spec.name}/{interval} has {chosen.told}; end that: trainfeed parameters"
        f" {spec.name}/{interval} --end --why WHY",
    )


@dataclass(frozen=True)
class Chosen:
    """The parameters of an interval.

    Attributes:
        values: Name → value that a build of the interval uses now.
        override: The decision that holds; None if dataset.yaml counts.
        is_new: Whether this call wrote it, or would have.
    """

    values: Mapping[str, Any]
    override: Override | None
    is_new: bool

    def to_json(self) -> dict[str, Any]:
        """Return the values, the decision without them, and whether it is new."""
        values = {name: as_json(value) for name, value in self.values.items()}
        decision = None if self.override is None else self.override.to_json()
        return {"parameters": values, "override": decision, "is_new": self.is_new}


def parameters_of(spec: DatasetSpec, folder: DatasetFolder, interval: str) -> Chosen:
    """Return the parameters of an interval as they are; see ``interval_spec`` for errors."""
    now = _with_chosen(spec, folder, interval)
    return Chosen(now.preprocess.parameters, override_of(folder, interval), is_new=False)


def parse_parameters(texts: Iterable[str]) -> dict[str, Any]:
    """Return name → value of texts like ``late_minutes=20``, with values as YAML writes them.

    Raises:
        ConfigError: A text is something else, or a name is given twice.
    """
    found: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        try:
            check_name(name, what="parameter")
            (parsed,) = read_yaml(f"value: {value}").value.values()
        except (RefusedError, SpecError, ValueError) as error:
            problem = f"expected NAME=VALUE like late_minutes=20, got {cut(text)!r}"
            raise ConfigError(f"{problem}; nothing was changed") from error
        if not equals or name in found:
            what = f"expected each parameter once, as NAME=VALUE, got {cut(text)!r}"
            raise ConfigError(f"{what}; nothing was changed")
        found[name] = parsed
    return found


def overridden(folder: DatasetFolder) -> list[Override]:
    """Return the decisions that hold for intervals of a data set, in order of their names.

    Raises:
        FormatError: The file of a decision is damaged.
        StorageError: The publication root refused or failed.
    """
    names = sorted(folder.names_in(folder.overrides("x").parent))
    return [chosen for name in names if (chosen := override_of(folder, name)) is not None]


def choose_parameters(
    spec: DatasetSpec,
    folder: DatasetFolder,
    interval: str,
    given: Mapping[str, Any],
    decision: Decision,
    *,
    dry_run: bool = False,
) -> Chosen:
    """Decide that builds of an interval use other values; nothing is built.

    Values that were chosen before and are not given stay. The values of dataset.yaml are no choice:
    if all are given, dataset.yaml counts again.

    Args:
        spec: The data set.
        folder: The data set below the publication root.
        interval: Name of the interval.
        given: Name → value; empty to let dataset.yaml count again.
        decision: Who decides, when and why.
        dry_run: Whether only to check.

    Raises:
        ConfigError: dataset.yaml has no such parameter, or one of another type.
        ConflictError: Another decision was written at the same time.
        FormatError: The file of an earlier decision is damaged.
        StorageError: The publication root refused or failed.
    """
    before = override_of(folder, interval)
    kept = {} if before is None or not given else before.parameters
    wanted = spec.with_parameters({**kept, **given}).preprocess.parameters
    base = spec.preprocess.parameters
    values = {
        name: as_json(wanted[name])
        for name in sorted({*kept, *given})
        if wanted[name] != base[name]
    }
    if dry_run:
        is_new = values != ({} if before is None else before.parameters)
        return Chosen(wanted, before, is_new)
    override, is_new = write_override(folder, interval, values, decision)
    return Chosen(wanted, override, is_new)
