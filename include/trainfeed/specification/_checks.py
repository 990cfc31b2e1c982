"""The rules that concern more than one field of a specification, or its folder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import NamedTuple

from trainfeed.errors import ConfigError, SpecError, WindowError
from trainfeed.intervals import Schedule
from trainfeed.specification._dataset_names import (
    RESERVED_NAMES,
    check_name,
)
from trainfeed.specification._model import DatasetSpec
from trainfeed.specification._near_names import (
    did_you_mean,
)
from trainfeed.specification._problems import (
    Place,
)
from trainfeed.specification._retention_part import RetentionRule
from trainfeed.specification._source_part import FieldSpec
from trainfeed.specification._spec_values import (
    MILLIONTHS,
)
from trainfeed.specification._uploads_part import upload_contradictions
from trainfeed.specification.quality import quality_contradictions
from trainfeed.specification.training import train_contradictions

__all__ = ["Contradiction", "contradictions"]

# Intervals that are compared: more than any cron expression needs to repeat its pattern in a week.
_LOOKED_AT = 32
_RESERVED_SPLITS = ("late", "quarantine")


class Contradiction(NamedTuple):
    """A violated rule: the place of the field, and the message."""

    place: Place
    text: str


def contradictions(spec: DatasetSpec) -> Iterator[Contradiction]:
    """Yield every violated rule of ``spec``."""
    yield from _name(spec)
    yield from _ticks(spec)
    yield from _source(spec)
    yield from _modules(spec)
    yield from _training(spec)
    yield from _models(spec)
    yield from _labels(spec)
    yield from _split_names(spec.split.millionths)
    yield from _shares(spec.split.millionths)
    yield from _split_by(spec)
    yield from _uploads(spec)
    yield from _lookup_types(spec)
    for place, text in quality_contradictions(spec.quality, spec.fields, spec.lookups):
        yield Contradiction(("quality", *place), text)


def _name(spec: DatasetSpec) -> Iterator[Contradiction]:
    if spec.name in RESERVED_NAMES:
        text = f"expected a name that is not reserved, got {spec.name!r}; choose another"
        yield Contradiction(("name",), text)
    folder = spec.folder.name
    if spec.name != folder:
        text = f"expected the name of its folder, {folder!r}, got {spec.name!r}; rename one"
        yield Contradiction(("name",), text)


def _ticks(spec: DatasetSpec) -> Iterator[Contradiction]:
    field = "start"
    try:
        Schedule(spec.schedule, spec.start)
        field = "end"
        spec.schedule_model()
    except WindowError as error:
        yield Contradiction((field,), str(error))
    except ConfigError as error:
        yield Contradiction(("schedule",), str(error))


def _source(spec: DatasetSpec) -> Iterator[Contradiction]:
    """Yield violated rules of the source; intervals are compared only if the schedule is right."""
    is_wrong = next(_ticks(spec), None) is not None
    intervals = () if is_wrong else islice(spec.schedule_model().intervals(), _LOOKED_AT)
    for place, text in spec.source.kind.contradictions(spec.schedule, intervals):
        yield Contradiction(("source", *place), text)


def _modules(spec: DatasetSpec) -> Iterator[Contradiction]:
    entries: dict[Place, str] = {("preprocess", "function"): spec.preprocess.module}
    if spec.train is not None and spec.train.module is not None:
        entries["train", "entry"] = spec.train.module
    model = None if spec.train is None else spec.train.model
    for name in () if model is None else ("evaluate", "predict", "complete"):
        if (entry := getattr(model, name)) is not None:
            entries["train", "model", name] = entry.partition(":")[0]
    for place, module in entries.items():
        if not (spec.folder / f"{module}.py").is_file():
            there = sorted(path.stem for path in spec.folder.glob("*.py"))
            hint = did_you_mean(module, there) if there else "add it"
            text = f"expected the file {module}.py beside the specification, got none; {hint}"
            yield Contradiction(place, text)


def _training(spec: DatasetSpec) -> Iterator[Contradiction]:
    if spec.train is not None:
        for name, text in train_contradictions(spec.train):
            yield Contradiction(("train", name) if name else ("train",), text)


def _models(spec: DatasetSpec) -> Iterator[Contradiction]:
    has_model = spec.train is not None and spec.train.model is not None
    if spec.retention.models != RetentionRule() and not has_model:
        text = "expected train.model, whose versions it is about; add that, or remove this"
        yield Contradiction(("retention", "models"), text)


def _labels(spec: DatasetSpec) -> Iterator[Contradiction]:
    model = None if spec.train is None else spec.train.model
    labels = () if model is None else model.labels
    for number, name in enumerate(labels):
        if name not in spec.fields:
            yield _unknown_field(spec.fields, name, ("train", "model", "labels", number))
    if labels and set(labels) >= set(spec.fields):
        text = "expected a field of the schema that is no label, got none; shorten labels"
        yield Contradiction(("train", "model", "labels"), text)


def _split_names(names: Mapping[str, int]) -> Iterator[Contradiction]:
    for name in names:
        try:
            check_name(name, what="split")
        except SpecError as error:
            yield Contradiction(("split", name), str(error))
        if name in _RESERVED_SPLITS:
            text = f"expected a split name that is not reserved, got {name!r}; choose another"
            yield Contradiction(("split", name), text)


def _shares(shares: Mapping[str, int]) -> Iterator[Contradiction]:
    if (total := sum(shares.values())) != MILLIONTHS:
        terms = " + ".join(f"{name} {_decimal(share)}" for name, share in shares.items())
        text = f"expected shares that sum to 1, got {_decimal(total)} ({terms or 'no split'})"
        yield Contradiction(("split",), text)


def _split_by(spec: DatasetSpec) -> Iterator[Contradiction]:
    for number, name in enumerate(spec.split.by or ()):
        place: Place = ("split", "by", number)
        field = spec.fields.get(name)
        if field is None:
            yield _unknown_field(spec.fields, name, place)
        elif None in field.shape:
            text = f"expected a field of fixed shape, got {name!r} of any length; choose another"
            yield Contradiction(place, text)


def _uploads(spec: DatasetSpec) -> Iterator[Contradiction]:
    if spec.uploads is None:
        return
    for place, text in upload_contradictions(spec.uploads, spec.fields, spec.split.by or ()):
        yield Contradiction(("uploads", *place), text)
    if not spec.function_fields():
        text = "expected a field that the function makes, got labels only; add one"
        yield Contradiction(("uploads", "labels"), text)


def _lookup_types(spec: DatasetSpec) -> Iterator[Contradiction]:
    for name in spec.lookup_types:
        place: Place = ("lookup_types", name)
        if name not in spec.lookups:
            hint = did_you_mean(name, spec.lookups)
            yield Contradiction(place, f"expected a name of lookups, got {name!r}; {hint}")
        elif name not in spec.csv_lookups:
            text = f"expected a CSV file, got {spec.lookups[name]!r}, which has types; remove this"
            yield Contradiction(place, text)


def _unknown_field(fields: Mapping[str, FieldSpec], name: str, place: Place) -> Contradiction:
    hint = did_you_mean(name, fields)
    return Contradiction(place, f"expected a field of the schema, got {name!r}; {hint}")


def _decimal(millionths: int) -> str:
    whole, rest = divmod(millionths, MILLIONTHS)
    return f"{whole}.{rest:06d}".rstrip("0").rstrip(".")
