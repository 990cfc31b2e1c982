"""The documentation of a data set's DAGs, as Markdown: its facts, and how to run it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final

from trainfeed.specification import (
    SPEC_FILE,
    DatasetSpec,
    ModelSpec,
    QualityCheck,
    gate_limits,
    gate_name,
)

_RULE: Final = "---"
_ELSE: Final = {
    "block": "not published",
    "ask": "not published unless approved",
    "warn": "a warning",
}


def spec_doc(spec: DatasetSpec) -> str:
    """Return the page: description, source, schema, splits, gates, how to trigger, the file."""
    sections = [
        spec.description,
        "\n".join(_facts(spec)),
        f"**Samples**\n\n{_table(('field', 'type', 'shape', ''), _fields(spec))}",
        _gates(spec),
        _how_to(spec),
        f"**{SPEC_FILE}**\n\n````yaml\n{spec.text.rstrip()}\n````",
    ]
    return "\n\n".join(filter(None, sections)) + "\n"


def _facts(spec: DatasetSpec) -> Iterator[str]:
    schedule = spec.schedule_model()
    first = schedule.first_name
    last = "on" if schedule.last is None else f"to {schedule.interval_starting(schedule.last).name}"
    for source, end in zip(spec.all_sources, spec.ends_of_sources, strict=True):
        until = "" if end is None else f", until {end:%Y-%m-%d %H:%M} UTC"
        yield f"- **Source:** {', '.join(source.kind.described())}{until}"
    zone = schedule.zone or "UTC"
    yield f"- **Intervals:** `{spec.schedule}` {zone}, from {first} {last}; names like `{first}`"
    yield f"- **Function:** `{spec.preprocess.function}`, per {spec.preprocess.input}"
    yield f"- **Splits:** {', '.join(_splits(spec))}"
    if spec.train is not None:
        intervals = "interval" if spec.train.window == 1 else f"{spec.train.window} intervals"
        bound = ""
        if spec.train.min is not None:
            bound = f", `{spec.train.metric}` at least {spec.train.min:g}"
        yield f"- **Training:** `{spec.train.entry}` on the last {intervals}{bound}"
        if spec.train.model is not None:
            yield f"- **Model:** {_model(spec.train.model)}"
    if spec.resources.pool is not None:
        yield f"- **Pool:** `{spec.resources.pool}`, of the tasks that read the source"


def _model(model: ModelSpec) -> str:
    gates = []
    for name, gate in model.metrics.items():
        limits = [f"{s} {v:g}" for s in ("min", "max") if (v := getattr(gate, s)) is not None]
        if gate.max_worse is not None:
            limits.append(f"at most {gate.max_worse:g} worse than the promoted model")
        gates.append(f"`{name}` {', '.join(limits)}")
    how = {"automatic": "at once", "approve": "when a person approves", "by_hand": "by hand"}
    return f"`{model.name}`, gate {'; '.join(gates)}; promoted {how[model.promote]}"


def _splits(spec: DatasetSpec) -> Iterator[str]:
    for name, millionths in spec.split.millionths.items():
        yield f"{name} {millionths / 10_000:g} %"
    if spec.split.by is not None:
        yield f"equal {' and '.join(spec.split.by)} in one split"


def _fields(spec: DatasetSpec) -> Iterator[tuple[str, str, str, str]]:
    for name, field in spec.fields.items():
        shape = ", ".join("any" if length is None else str(length) for length in field.shape)
        yield f"`{name}`", field.dtype, shape, "optional" if field.optional else ""


def _gates(spec: DatasetSpec) -> str:
    if not spec.quality:
        return "**Quality gates:** none; an empty interval is published as empty."
    return f"**Quality gates**\n\n{_table(('check', 'allowed', 'else'), map(_gate, spec.quality))}"


def _gate(check: QualityCheck) -> tuple[str, str, str]:
    entry = check.model_dump()
    return f"`{_cell(gate_name(entry))}`", _cell(gate_limits(entry)), _ELSE[check.severity]


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _how_to(spec: DatasetSpec) -> str:
    schedule = spec.schedule_model()
    intervals = list(islice(schedule.intervals(), 3))
    first, last = intervals[0].name, intervals[-1].name
    dates: tuple[str, ...] = (first, last)
    local = schedule.local_text(schedule.first)
    also = "" if local is None else f", which is {local}"
    if schedule.zone is not None:
        dates = tuple(f"{intervals[at].start:%Y-%m-%dT%H:%M:%SZ}" for at in (0, -1))
    dag = f"build.{spec.name}"
    return (
        "**How to run it**\n\n"
        f"- One interval: Trigger, `window_start` = `{first}`{also}. Set `dry_run` to see first"
        " what the run would do.\n"
        "- After a change of code or specification: the same with `outdated` = `rebuild`, or with"
        " `rebuild` = why.\n"
        "- After a fix of the function, for quarantined records: the same with `replay`; reads no"
        " broker.\n"
        "- Many intervals: Trigger → Backfill, or `airflow backfill create --dag-id"
        f" {dag} --from-date {dates[0]} --to-date {dates[1]}`. Intervals that are published already"
        " are found identical and read nothing.\n"
        f"- Without Airflow: `trainfeed build {spec.name} --interval {first}`"
    )


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [columns, [_RULE] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
