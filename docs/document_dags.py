"""Writes two generated files: ``reference/dags.md`` and ``dataset.schema.json``.

The reference is made of the docstrings of DAG files and operators and of the parameters, so
Airflow's pages and this one cannot disagree.
"""

from __future__ import annotations

import inspect
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from dags import (
    _datasets,
    convert,
    housekeeping,
    models,
    outdated,
    repair,
    retention,
    retire,
    tag,
    withdraw,
)
from docs._writing import write_or_check
from trainfeed.cli.scaffold import new_dataset
from trainfeed.specification import SPEC_FILE, DatasetSpec, json_schema_text, load_spec

_DATASET: Final = "clicks"
_HEAD: Final = """\
# DAGs

<!-- Written by `make docs` from the docstrings and parameters of `dags/` and `operators/`. -->

This page shows the DAGs of a data set `clicks` as `trainfeed new clicks` makes it; every folder of
`include/datasets` gets the same DAGs. The page of a DAG in Airflow also shows its source, schema,
splits and gates. For alarms see [runbook.md](../operations/runbook.md).
"""
_RECORDED: Final = "recorded: {path: ./sample}"
_MODEL: Final = "train: {model: {name: clicks, metrics: {accuracy: {min: 0.6}}, promote: approve}, "
_OF_MODELS: Final = " (with `train.model`)"
_UPLOADS: Final = "\nuploads: {key: [visitor], labels: [label], join: left, defaults: {label: 0}}\n"
_LOGS: Final = 'logs: {path: "/logs/clicks/dt={start:%Y-%m-%d}"}'


def documents() -> Mapping[str, str]:
    """The text of every generated file, by its name."""
    with tempfile.TemporaryDirectory() as folder:
        specs = _specs(Path(folder))
        lines = [
            _HEAD,
            *_family(
                _datasets.build_dag,
                [_datasets.build_dag(spec) for spec in specs[:2]],
                " (of log files)",
            ),
            *_family(
                _datasets.train_dag,
                [_datasets.train_dag(spec) for spec in specs[1:3]],
                " (with `train.model`)",
            ),
            *_family(_datasets.uploads_dag, [_datasets.uploads_dag(specs[-1])]),
            *_family(models, [models.dag]),
            *_family(_datasets.waive_dag, [_datasets.waive_dag(specs[0])]),
            *_family(convert, [convert.dag]),
            *_family(housekeeping, [housekeeping.dag]),
            *_family(retention, [retention.dag]),
            *_family(outdated, [outdated.dag]),
            *_family(repair, [repair.dag]),
            *_family(withdraw, [withdraw.dag]),
            *_family(tag, [tag.dag]),
            *_family(retire, [retire.dag]),
        ]
    return {"reference/dags.md": "\n".join(lines), "dataset.schema.json": json_schema_text()}


def _specs(datasets: Path) -> list[DatasetSpec]:
    """A data set over a topic, over log files, one that makes a model, and one with uploads."""
    folder = datasets / _DATASET
    new_dataset(datasets, _DATASET)
    of_topic = load_spec(folder)
    text = (folder / SPEC_FILE).read_text(encoding="utf-8")
    (folder / SPEC_FILE).write_text(text.replace(_RECORDED, _LOGS), encoding="utf-8")
    of_logs = load_spec(folder)
    found = (folder / SPEC_FILE).read_text(encoding="utf-8")
    (folder / SPEC_FILE).write_text(re.sub(r"(?m)^train: {", _MODEL, found), encoding="utf-8")
    of_model = load_spec(folder)
    with (folder / SPEC_FILE).open("a", encoding="utf-8") as file:
        file.write(_UPLOADS)
    return [of_topic, of_logs, of_model, load_spec(folder)]


def _family(described: object, dags: Sequence[Any], note: str = "") -> Iterator[str]:
    first, *_, last = [*dags, dags[-1]]
    yield f"## `{first.dag_id.replace(_DATASET, '<data set>')}`\n\n{inspect.getdoc(described)}\n"
    yield f"- Starts: {_starts(first)}"
    yield f"- Runs at once: {first.max_active_runs}\n"
    if first.params:
        yield "| parameter | type | what it is |\n| --- | --- | --- |"
        yield from (_parameter(name, first.params.get_param(name)) for name in first.params)
        yield ""
    yield "| task | what it does | tries | limit | links |\n| --- | --- | --- | --- | --- |"
    for task in last.topological_sort():
        yield _task(task, "" if task.task_id in first.task_ids else note)
    yield ""


def _starts(dag: Any) -> str:
    timetable = type(dag.timetable).__name__
    if timetable == "NullTimetable":
        return "when it is triggered"
    if timetable == "CronTriggerTimetable":
        return f"by the schedule `{dag.schedule}`, after it is switched on"
    if timetable == "IntervalTimetable":
        return "by the schedule of the specification, for one data interval, after its end"
    return f"by an event of the asset `trainfeed://{_DATASET}`, for the interval that it names"


def _parameter(name: str, param: Any) -> str:
    kinds = param.schema["type"]
    kind = kinds if isinstance(kinds, str) else " or ".join(reversed(kinds))
    form = f" ({param.schema['format']})" if "format" in param.schema else ""
    what = f"**{param.schema['title']}.** {param.description or ''}".rstrip()
    return f"| `{name}` | {kind}{form} | {what} |"


def _task(task: Any, note: str) -> str:
    operator = task.operator_class if task.is_mapped else type(task)
    limit = task.execution_timeout
    hours = "none" if limit is None else f"{limit.total_seconds() / 3600:g} h"
    mapped = ""
    if task.is_mapped:
        is_ours = operator.__module__.startswith("operators.")
        mapped = f", one per {'unit' if is_ours else 'interval'}"
    links = ", ".join(link.name for link in task.operator_extra_links)
    summary = (inspect.getdoc(operator) or "").partition("\n\n")[0]
    what = summary.replace("\n", " ").replace("``", "`")
    return (
        f"| `{task.task_id}`{mapped}{note} | {what} (`{operator.__module__}`) |"
        f" {task.retries + 1} | {hours} | {links} |"
    )


if __name__ == "__main__":
    write_or_check(documents(), sys.argv[1:])
