"""The tab *Data set* of a run: who may see it, and what it says of the facts.

Airflow does not authenticate the apps of plugins. Every route here requires a login, and permission
to read the run's tasks and XComs: the page shows nothing else. ``run_page.html`` lays it out, with
the sentences that are always the same; the functions here make those about the facts, and the rows
of the tables, as text and never as HTML.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
from airflow.api_fastapi.common.db.common import SessionDep
from airflow.api_fastapi.core_api.security import (
    GetUserDep,
    requires_access_dag,
    requires_authenticated,
)
from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from plugins import _run_facts
from plugins._run_facts import BUILD, TRAIN, UPLOADS, Failure, RunFacts, Stage, Training

# --- The app

_SEEN: Final = (DagAccessEntity.XCOM, DagAccessEntity.TASK_INSTANCE)
_HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'self'; base-uri 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}

app = FastAPI(
    dependencies=[Depends(requires_authenticated())],
    docs_url=None,
    redoc_url=None,
    openapi_url=None,
)


@app.get(
    "/dags/{dag_id}/runs/{run_id}",
    dependencies=[Depends(requires_access_dag("GET", entity)) for entity in _SEEN],
)
def show_run(
    dag_id: str, run_id: str, request: Request, user: GetUserDep, session: SessionDep
) -> HTMLResponse:
    """Return the page of a run: of a build with its trainings, of a form with its result."""
    trainings: tuple[Training, ...] = ()
    paused = ""
    facts = RunFacts(dag_id, run_id)
    if _run_facts.is_known(dag_id):
        facts = _run_facts.run_facts(session, dag_id, run_id)
    training = TRAIN + dag_id.removeprefix(BUILD)
    interval = facts.publish.get("interval")
    if facts.is_build and interval and _may_read(training, request, user):
        trainings = _run_facts.trainings(session, training, str(interval))
        paused = training if _run_facts.is_paused(session, training) else ""
    return HTMLResponse(page(facts, trainings, paused), headers=_HEADERS)


def _may_read(dag_id: str, request: Request, user: Any) -> bool:
    try:
        for entity in _SEEN:
            requires_access_dag("GET", entity, dag_id)(request, user)
    except HTTPException:
        return False
    return True


# --- The page

# State of Airflow → class with its colour; text on the page.
_KINDS: Final = {"success": "good", "failed": "bad", "running": "busy", "up_for_retry": "bad"}
_STATES: Final = {
    "upstream_failed": "not run",
    "skipped": "not needed",
    "up_for_retry": "failed, will be tried again",
    "up_for_reschedule": "waiting",
    "deferred": "waiting",
    "awaiting_input": "waits for an answer",
}
_QUIET: Final = frozenset({"success", "waiting", "scheduled", "queued", "removed"})
_ENDED: Final = frozenset({"success", "failed"})
_REFRESH_S: Final = 10
_MOST_CHARS: Final = 8_000
# The interval of a run in its note, perhaps with what its start is in a zone.
_INTERVAL: Final = re.compile(r"([0-9][A-Za-z0-9._-]{0,199})( \([^()]*\))?")
_Report = Mapping[str, Any]


def page(facts: RunFacts, trainings: Sequence[Training] = (), paused: str = "") -> str:
    """Return the page of a run; for one that no task has left anything of, a page that says so.

    Args:
        facts: Facts about the run.
        trainings: The training runs that its interval started.
        paused: The DAG that would train if it were not paused; empty if it is not.
    """
    left = (facts.plan, facts.publish, facts.job, facts.uploads, facts.results)
    ended = not facts.state or facts.state in _ENDED
    interval = _interval(facts)
    name = _target(facts) or facts.dag_id.partition(".")[2] or facts.dag_id
    # The sections below begin with the result of a form that went well.
    is_said = facts.results and facts.state in _ENDED and not facts.failures
    return _ENVIRONMENT.get_template("run_page.html").render(
        facts=facts,
        trainings=trainings,
        paused=paused,
        is_something=any((facts.state, facts.stages, facts.failures, *left)),
        refresh_s=None if ended else _REFRESH_S,
        title=f"{name} / {interval}" if interval else name,
        result=_outcome(facts),
        sentence="" if is_said else _sentence(facts),
        advised=_advised(facts, interval),
    )


def shown(value: Any) -> str:
    """Return a value as text; numbers are short, long texts are cut. What is HTML stays."""
    if isinstance(value, Markup):
        return value
    if isinstance(value, bool) or value is None:
        text = {True: "yes", False: "no", None: ""}[value]
    elif isinstance(value, int):
        text = f"{value:,}"
    elif isinstance(value, float):
        text = f"{value:.6g}"
    elif isinstance(value, list) and all(isinstance(each, int | float) for each in value):
        text = " to ".join(map(_plain, value))
    else:
        text = _plain(value)
    return text[:_MOST_CHARS] + "…" if len(text) > _MOST_CHARS else text


def _plain(value: Any) -> str:
    """Return lists and mappings in words: ``auc 0.75, log_loss 0.6``; not as JSON."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_plain(each)}" for name, each in value.items())
    if isinstance(value, list | tuple):
        between = "; " if any(isinstance(each, Mapping) for each in value) else ", "
        return between.join(map(_plain, value))
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def is_number(value: Any) -> bool:
    """Return whether a cell stands at the right of its column."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def filled(values: _Report) -> list[tuple[str, Any]]:
    """Return the names and values of which there is something to show."""
    return [(name, value) for name, value in values.items() if value not in (None, "", [], {})]


# --- The result of a run in a title and a sentence


def _target(facts: RunFacts) -> str:
    """Return what a run of a form was about, as ``flights/2013-01-02``; empty if no task says."""
    return next((str(each["target"]) for each in facts.results if each.get("target")), "")


def _interval(facts: RunFacts) -> str:
    trained_on = facts.job.get("intervals") or [""]
    reported = facts.publish.get("interval") or facts.plan.get("interval") or trained_on[-1]
    # A plan that failed has left no report, and the note has the interval since the start.
    noted = None if facts.is_form else _INTERVAL.fullmatch(facts.note)
    return str(reported or (noted[1] if noted else ""))


def _outcome(facts: RunFacts) -> tuple[str, str]:
    if facts.failures:
        return ("failed" if _has_failed(facts) else "will be tried again"), "bad"
    if facts.plan.get("dry_run"):
        return "dry run", ""
    if facts.plan.get("verdict") == "skipped":
        return "left out", ""
    if facts.publish:
        verdict = str(facts.publish.get("verdict", "built"))
        return {"built": "published"}.get(verdict, verdict), "good"
    return facts.state or "unknown", _KINDS.get(facts.state, "")


def _has_failed(facts: RunFacts) -> bool:
    """Return whether a task failed for good; the run itself may go on with others."""
    states = {facts.state, *(each.state for each in facts.failures)}
    return "failed" in states.union(*(stage.states for stage in facts.stages))


def _sentence(facts: RunFacts) -> str:
    """Return the result of the run, in a sentence or two."""
    if facts.failures:
        return _failed(facts)
    if planned := _only_planned(facts):
        return planned
    if facts.publish or facts.uploads:
        return _published(facts) if facts.publish else _uploaded(facts.uploads)
    if facts.job:
        name, version = facts.model.get("model"), facts.model.get("version")
        made = f" Model {name}/{version}." if facts.model else ""
        return f"Job {facts.job.get('job')}: {facts.job.get('verdict')}.{made}"
    if at := [stage for stage in facts.stages if stage.state not in _QUIET]:
        return f"At task {at[-1].task_id}: {_progress(at[-1], facts)}."
    return "No task left a report." if facts.state in _ENDED else _before_next_task(facts)


def _before_next_task(facts: RunFacts) -> str:
    done = [stage.task_id for stage in facts.stages if stage.state == "success"]
    if not done:
        return "No task has started yet."
    return f"Task {done[-1]} is done; the next one has not started yet."


def _only_planned(facts: RunFacts) -> str:
    """Return the result of a run that ended with its plan; otherwise empty."""
    if facts.plan.get("dry_run"):
        return "Nothing was written, and no training starts."
    if facts.plan.get("verdict") == "skipped":
        return "The interval is left out; nothing was built."
    return ""


def _failed(facts: RunFacts) -> str:
    failed = dict.fromkeys(failure.task_id for failure in facts.failures)
    if facts.is_form:
        what = "Its result stands below." if facts.results else ""
    elif facts.is_build:
        what = "" if facts.publish else "Nothing was published by this run."
    elif facts.dag_id.startswith(UPLOADS):
        is_checked = facts.uploads and "check" not in failed
        what = _uploaded(facts.uploads) if is_checked else "No build was asked for by this run."
    else:
        what = _trained(facts, failed) if facts.job else "No job is finished."
    return f"Task {', '.join(failed)} failed. {what}"


def _trained(facts: RunFacts, failed: Container[str]) -> str:
    """Return how far a training came whose job has a result, and of which a later task failed."""
    name = f"{facts.model.get('model')}/{facts.model.get('version')}"
    if "promote" in failed:
        return f"The training has a result, {name}; its promotion left no report."
    if facts.promotion:
        if facts.promotion.get("verdict") == "promoted":
            return f"The training has a result; {name} was promoted by this run."
        return f"The training has a result, {name}; this run left prod as it was."
    if facts.model:
        return f"The training has a result, {name}; no model was promoted by this run."
    return "The training has a result; no model was promoted by this run."


def _published(facts: RunFacts) -> str:
    generation = facts.publish.get("generation")
    version = facts.version.get("version", {})
    because = f"{_empty(version)}{_passed_over(version)}"
    if facts.publish.get("verdict") == "kept":
        kept = "was published before, is outdated, and was kept as the run asked"
        return f"{generation} {kept}.{because}"
    if facts.publish.get("verdict") != "identical":
        return f"{generation} is published; readers get it.{because}"
    return (
        f"{generation} was published before from the same inputs, code and lookups, so nothing"
        f" was read or built.{because}"
    )


def _empty(version: _Report) -> str:
    """Return why a version has no samples; empty if it has some."""
    reasons = version.get("empty_because")
    if reasons and isinstance(reasons, Mapping):
        said = "; ".join(f"{source}: {reason}" for source, reason in reasons.items())
        return f" The version is empty: {said}."
    return " The version is empty: its source has no records." if version.get("empty") else ""


def _passed_over(version: _Report) -> str:
    """Return which entries of the folder of logs were not read; empty if there were none."""
    names = version.get("passed_over")
    return f" Passed over in the folder of logs: {names}." if names else ""


def _uploaded(report: _Report) -> str:
    """Return what a run did with uploads, and what it leaves to a person.

    Args:
        report: The XCom ``uploads`` of the task ``check``; other shapes of values count as nothing.
    """
    said = f"Builds that were asked for: {len(_names(report, 'builds'))}."
    if newer := _names(report, "newer_than_version"):
        said += (
            f" Published intervals with newer uploads stay as they are: {', '.join(newer)}. To take"
            " the uploads, trigger the build with window_start, and rebuild = why."
        )
    return said


def _names(report: _Report, key: str) -> list[str]:
    found = report.get(key)
    return [str(name) for name in found] if isinstance(found, list) else []


def _progress(stage: Stage, facts: RunFacts) -> str:
    if stage.task_id == "spark" and stage.state == "running":
        return str(facts.spark_progress.get("progress") or "") or "the application starts"
    return ", ".join(f"{count} {state}" for state, count in sorted(stage.states.items()))


# --- What tasks did, and why they failed


def step(stage: Stage) -> str:
    """Return how far a task is: ``convert 3/4: running``."""
    count = sum(stage.states.values())
    number = f" {stage.states.get('success', 0)}/{count}" if count > 1 else ""
    return f"{stage.task_id}{number}: {_STATES.get(stage.state, stage.state.replace('_', ' '))}"


def results(facts: RunFacts) -> Iterator[list[Any]]:
    """Yield the lines that tasks of a form left; other shapes of values count as nothing."""
    for each in facts.results:
        lines = each.get("lines")
        if isinstance(lines, list) and lines:
            yield lines


def title_of(failure: Failure) -> str:
    """Return the title of a failure."""
    unit = f" (unit {failure.map_index})" if failure.map_index >= 0 else ""
    return f"Why {failure.task_id}{unit} failed"


def account_of(failure: Failure) -> _Report:
    """Return the account whose tables say what the message of a failed build says, or none."""
    report = failure.report.get("report")
    return report if isinstance(report, Mapping) and "gate" not in report else {}


def gate_that_failed(failure: Failure) -> Any:
    """Return the gate of the model that stopped a training; None if none did."""
    report = failure.report.get("report")
    return report.get("gate") if isinstance(report, Mapping) else None


def first_line(failure: Failure) -> str:
    """Return the first line of a failure's message."""
    return _lines(failure)[0]


def remedy(failure: Failure) -> str:
    """Return the last two lines of a failure's message as sentences."""
    ends = (line[:1].upper() + line[1:].removesuffix(".") for line in _lines(failure)[-2:])
    return " ".join(f"{line}." if line else "" for line in ends)


def _lines(failure: Failure) -> list[str]:
    return str(failure.report.get("message", "")).splitlines() or [""]


# --- The account of an interval's records: gates, reasons with examples, a command


def counts(report: _Report) -> dict[str, Any]:
    """Return the counts of records by outcome; databases do not keep the order of JSON."""
    found = report.get("counts", {})
    return {name: found.get(name) for name in ("read", "samples", "quarantined", "filtered")}


def gates(report: _Report) -> list[tuple[Any, ...]]:
    """Return the gates of a build, those that fail first."""
    waivers = report.get("waivers", [])
    waived = {_gate_name(gate) for waiver in waivers for gate in waiver.get("gates", [])}
    return [
        (
            _gate_name(gate),
            gate.get("value"),
            str(gate["allowed"]),
            gate.get("because", ""),
            _gate_outcome(gate, waived),
        )
        for gate in sorted(report.get("gates", []), key=lambda gate: bool(gate.get("passed")))
    ]


def _gate_name(gate: _Report) -> str:
    # The gates of a waiver have no name.
    if "name" in gate:
        return str(gate["name"])
    check = gate.get("check")
    return f"{check} of {gate['field']}" if gate.get("field") else str(check)


def _limits(gate: _Report) -> list[str]:
    return [f"{side} {gate[side]}" for side in ("min", "max") if gate.get(side) is not None]


def _gate_outcome(gate: _Report, waived: set[str]) -> tuple[str, str]:
    if gate.get("passed"):
        return "passed", "good"
    severity = str(gate.get("severity"))
    if severity != "warn" and _gate_name(gate) in waived:
        return "failed, waived", ""
    return {"warn": "failed (warning)", "ask": "failed (asks)"}.get(severity, "failed"), "bad"


def waivers(report: _Report) -> list[tuple[Any, ...]]:
    """Return the waivers of an interval, with who gave them and why."""
    return [
        (
            ", ".join(map(_gate_name, waiver.get("gates", []))),
            *(waiver.get(name) for name in ("who", "account", "why", "at", "until")),
        )
        for waiver in report.get("waivers", [])
    ]


def offending(report: _Report) -> list[tuple[Any, ...]]:
    """Return the samples that fail a gate."""
    return [
        (_gate_name(each), *_place(example))
        for each in report.get("offending", [])
        for example in each.get("examples", [])
    ]


def reasons(report: _Report) -> list[tuple[Any, ...]]:
    """Return the reasons of quarantined records, with examples."""
    rows: list[tuple[Any, ...]] = []
    for reason in report.get("reasons", []):
        for number, example in enumerate(reason.get("examples") or [{}]):
            first = (reason.get("reason"), reason.get("records")) if number == 0 else ("", "")
            rows.append((*first, *_place(example), example))
    return rows


def _place(example: _Report) -> tuple[Any, Any]:
    if not example:
        return "", ""
    return f"{example.get('source')} offset {example.get('offset')}", example.get("message", "")


def filtered(report: _Report) -> list[tuple[str, int]]:
    """Return the reasons of filtered records, the most frequent first."""
    return sorted(report.get("filtered", {}).items(), key=lambda item: -item[1])


# --- The version of a run

_STATISTICS: Final = ["count", "nulls", "min", "max", "mean", "std"]


def version_counts(found: _Report) -> dict[str, Any]:
    """Return how many samples and bytes a version has."""
    version = found.get("version", {})
    splits = ", ".join(f"{name} {count}" for name, count in found.get("splits", {}).items())
    return counts(found) | {"splits": splits} | chosen(version, ("shards", "bytes"))


def sources(found: _Report) -> list[tuple[Any, ...]]:
    """Return the ranges of sources that a version was made of."""
    return [
        (
            each.get("source"),
            _range(each),
            each.get("records"),
            each.get("bytes"),
        )
        for each in found.get("sources", [])
    ]


def _range(source: _Report) -> str:
    """Return the range of a source: positions are their digits, for which people search."""
    ends = (source.get("start"), source.get("end"))
    start, end = (str(each) if isinstance(each, int) else shown(each) for each in ends)
    return f"[{start}, {end}) {shown(source.get('unit'))}"


def late(found: _Report) -> dict[str, Any]:
    """Return the counts of records that are stamped outside of the interval."""
    names = ("late", "future", "unstamped", "ahead", "refused", "max_lateness_ms")
    counted = chosen(found.get("late") or {}, names)
    return {name.replace("_", " "): count for name, count in counted.items() if count}


def generations(found: _Report) -> list[tuple[Any, ...]]:
    """Return the published versions of an interval."""
    return [
        (
            f"{each.get('generation')}{' (this one)' if each.get('this') else ''}",
            *(each.get(name, "") for name in ("samples", "quarantined", "content", "why")),
        )
        for each in found.get("generations", [])
    ]


def statistics(found: _Report) -> list[tuple[Any, ...]]:
    """Return the statistics of the fields of a version."""
    fields = found.get("statistics", {})
    return [(name, *(field.get(each) for each in _STATISTICS)) for name, field in fields.items()]


def digests(found: _Report) -> dict[str, Any]:
    """Return the digests and places of a version."""
    names = ("path", "start", "end", "content_digest", "fingerprint", "code", "plan")
    version = chosen(found.get("version", {}), names)
    return {name.replace("_", " "): value for name, value in version.items()}


def chosen(found: _Report, names: Iterable[str]) -> dict[str, Any]:
    """Return the named values of a report, in the order of the names."""
    return {name: found.get(name) for name in names}


# --- Trainings, their models, and Spark applications

# Why no training starts for a version that is published.
_DEAF: Final = {"paused": "was paused", "missing": "did not exist"}
# Number in the report of the task → text on the page.
_APPLICATION: Final = {
    "groups": "groups",
    "shards": "shards",
    "kept_shards": "shards kept of an earlier attempt",
    "build_s": "seconds from the first task to the last shard",
    "preprocess_s": "seconds of all tasks that ran the function",
    "write_s": "seconds of all tasks that wrote shards",
    "failed_tasks": "tasks that failed and ran again",
    "shuffle_bytes": "bytes shuffled",
    "spilled_bytes": "bytes spilled",
}


def announced(found: Any) -> Iterator[str]:
    """Yield the outcome of the events that start trainings, if it is worth a line."""
    if not isinstance(found, Mapping):
        return
    if found.get("state") == "declined":
        yield f"No training of this interval starts: {found.get('why')}."
    if found.get("state") in _DEAF:
        yield (
            f"{found.get('dag')} {_DEAF[found['state']]} when this run ended, so it started no"
            f" training. Published intervals that waited for one: {found.get('untrained')}. Once"
            f" {found.get('dag')} is switched on, the next run of this DAG starts them."
        )
    if caught_up := found.get("caught_up"):
        yield (
            "Trainings of other published intervals, which no training had read at that time,"
            f" were started as well: {', '.join(caught_up)}."
        )


def metrics(found: _Report) -> list[tuple[Any, ...]] | None:
    """Return the metrics of a model with their limits, and the values of the promoted model."""
    rows = found.get("metrics")
    if not isinstance(rows, list):
        return None
    return [
        (
            each.get("metric"),
            each.get("value"),
            ", ".join(
                [*_limits(each), f"worse by at most {each['max_worse']}"]
                if each.get("max_worse") is not None
                else _limits(each)
            ),
            each.get("promoted"),
            ("passed", "good") if each.get("passed") else ("failed", "bad"),
        )
        for each in rows
        if isinstance(each, Mapping)
    ]


def model_facts(found: _Report) -> dict[str, Any]:
    """Return what a model is: its version, its files and its data."""
    names = ("model", "version", "job", "path", "files", "bytes", "data", "manifest_sha256")
    data = found.get("data")
    read = ", ".join(map(str, data)) if isinstance(data, list) else data
    return chosen(found, names) | {"data": read}


def application(report: _Report) -> dict[str, Any]:
    """Return what a Spark application took; empty if none ran."""
    ran = report if report.get("build_s") else {}
    return {text: ran[name] for name, text in _APPLICATION.items() if name in ran}


# --- The forms that carry out what the message of a failed run advises

# Stands for the name of the data set in ids of DAGs.
_DATASET: Final = "{}"
_COMMAND: Final = re.compile(r"\btrainfeed ([a-z][a-z-]*)")
# Command → the DAG that does the same, and what to choose in its form.
_FORMS: Final[Mapping[str, tuple[str, str]]] = {
    "bring-forward": (f"build.{_DATASET}", "a backfill with Outdated: rebuild"),
    "build": (f"build.{_DATASET}", "Window start; what else the message names: Rebuild, Outdated"),
    "gc": ("housekeeping", ""),
    "models": ("models", "Action: promote or rollback"),
    "outdated": ("outdated", ""),
    "prune": ("retention", "Data set, first with Dry run"),
    "repair": ("repair", ""),
    "restore": ("withdraw", "Action: restore"),
    "retire": ("retire", "first with Dry run"),
    "tag": ("tag", "Action: tag"),
    "train": (f"train.{_DATASET}", ""),
    "untag": ("tag", "Action: untag"),
    "waive": (f"waive.{_DATASET}", "then the version is published without another computation"),
    "withdraw": ("withdraw", "Action: withdraw"),
}


def _advised(facts: RunFacts, interval: str) -> dict[str, Any]:
    """Return the forms of the commands in messages of failed tasks, and the values to fill in."""
    dataset = facts.dag_id.partition(".")[2]
    if facts.is_form and not dataset:
        target = re.fullmatch(r"([a-z][a-z0-9_]*)(?:[/@](.*))?", _target(facts))
        dataset, interval = (target[1], target[2] or "") if target else ("", "")
    messages = [str(failure.report.get("message", "")) for failure in facts.failures]
    named = dict.fromkeys(word for each in messages for word in _COMMAND.findall(each))
    found = {_FORMS[word]: None for word in named if word in _FORMS}
    values = {"Data set": dataset, "Interval": interval}
    return {
        "rows": [
            (dag.replace(_DATASET, dataset), chosen)
            for dag, chosen in found
            if dataset or _DATASET not in dag
        ],
        "values": ". ".join(f"{name}: {value}" for name, value in values.items() if value),
    }


_ENVIRONMENT: Final = Environment(
    loader=FileSystemLoader(Path(__file__).parent),
    autoescape=True,
    finalize=shown,
    undefined=StrictUndefined,
)
_ENVIRONMENT.globals |= {
    "as_text": shown,
    "kinds": _KINDS,
    "quoted": partial(quote, safe=""),
    "statistics_names": _STATISTICS,
    **{
        each.__name__: each
        for each in (
            account_of, announced, application, chosen, counts, digests, filled, filtered,
            first_line, gate_that_failed, gates, generations, is_number, late, metrics, model_facts,
            offending, reasons, remedy, results, sources, statistics, step, title_of,
            version_counts, waivers,
        )
    },
}  # fmt: skip
