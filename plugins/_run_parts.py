"""The parts of a run's page as HTML: account, version, trainings, model, forms, uploads."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import Any, Final
from urllib.parse import quote

from plugins._html import STATE_KINDS, Html, badge, code, pairs, section, table, text
from plugins._run_facts import Training

# --- The account of an interval's records as HTML: gates, reasons with examples, a command

# The order of the counts: databases do not keep that of JSON.
_COUNTS: Final = ("read", "samples", "quarantined", "filtered")


def account(report: Any) -> Iterable[str]:
    """Yield the sections about records: gates, waivers, reasons, examples, a command for more."""
    if not isinstance(report, Mapping):
        return
    yield section("Gates", _gates(report.get("gates", []), _waived(report)))
    yield section("Waived by people", _waivers(report.get("waivers", [])))
    yield section("Samples that fail a gate", _offending(report.get("offending", [])))
    yield section("Records", counts(report.get("counts", {})))
    yield section("Quarantined", _reasons(report.get("reasons", [])), _look(report))
    filtered = sorted(report.get("filtered", {}).items(), key=lambda item: -item[1])
    yield section("Filtered: good, but not wanted", table(("reason", "records"), filtered))


def counts(found: Mapping[str, Any], **more: Any) -> str:
    """Return the counts of records by outcome."""
    return pairs({**{name: found.get(name) for name in _COUNTS}, **more})


def _waived(report: Mapping[str, Any]) -> frozenset[str]:
    """Return the names of the gates that passed by a waiver."""
    gates = (gate for waiver in report.get("waivers", []) for gate in waiver.get("gates", []))
    return frozenset(map(_gate_name, gates))


def _gates(gates: Iterable[Mapping[str, Any]], waived: frozenset[str]) -> str:
    rows = [
        (
            _gate_name(gate),
            Html(text(gate.get("value"))),
            _allowed_by_gate(gate),
            gate.get("because", ""),
            Html(_outcome(gate, waived)),
        )
        for gate in sorted(gates, key=lambda gate: bool(gate.get("passed")))
    ]
    return table(("gate", "value", "allowed", "counts", ""), rows)


def _waivers(waivers: Iterable[Mapping[str, Any]]) -> str:
    rows = [
        (
            ", ".join(map(_gate_name, waiver.get("gates", []))),
            waiver.get("who"),
            waiver.get("account"),
            waiver.get("why"),
            waiver.get("at"),
            waiver.get("until"),
        )
        for waiver in waivers
    ]
    return table(("gates", "who", "account", "why", "at", "until"), rows)


def _gate_name(gate: Mapping[str, Any]) -> str:
    # Reports of earlier versions of trainfeed have no name of a gate.
    if "name" in gate:
        return str(gate["name"])
    return (
        f"{gate.get('check')} of {gate['field']}" if gate.get("field") else str(gate.get("check"))
    )


def _allowed_by_gate(gate: Mapping[str, Any]) -> str:
    if "allowed" in gate:
        return str(gate["allowed"])
    return ", ".join(f"{s} {gate[s]}" for s in ("min", "max") if gate.get(s) is not None)


def _outcome(gate: Mapping[str, Any], waived: frozenset[str]) -> str:
    if gate.get("passed"):
        return badge("passed", "good")
    severity = str(gate.get("severity"))
    if severity != "warn" and _gate_name(gate) in waived:
        return badge("failed, waived")
    return badge(
        {"warn": "failed (warning)", "ask": "failed (asks)"}.get(severity, "failed"), "bad"
    )


def _reasons(reasons: Iterable[Mapping[str, Any]]) -> str:
    rows: list[tuple[Any, ...]] = []
    for reason in reasons:
        examples = reason.get("examples") or [{}]
        for number, example in enumerate(examples):
            first = (reason.get("reason"), reason.get("records")) if number == 0 else ("", "")
            rows.append((*first, *_example(example)))
    return table(("reason", "records", "example at", "error", "record"), rows)


def _offending(found: Iterable[Mapping[str, Any]]) -> str:
    rows = [
        (_gate_name(each), *_example(example)[:2])
        for each in found
        for example in each.get("examples", [])
    ]
    return table(("gate", "example at", "value"), rows)


def _example(example: Mapping[str, Any]) -> tuple[Any, Any, Any]:
    if not example:
        return "", "", ""
    place = f"{example.get('source')} offset {example.get('offset')}"
    record = text(example.get("value", ""))
    shown = f"<code>{record}</code>" if record else '<span class="soft">no bytes</span>'
    return place, example.get("message", ""), Html(shown)


def _look(report: Mapping[str, Any]) -> str:
    command = report.get("command")
    if not command:
        return ""
    place = (
        f"<p>The records are in <code>{text(report['quarantine'])}</code></p>"
        if report.get("quarantine")
        else ""
    )
    return f"{place}<p>To see all, on a machine that reaches these folders:</p>{code(command)}"


# --- The part of a run's page about its version: counts, sources, generations, statistics


def version_parts(found: Mapping[str, Any]) -> Iterable[str]:
    """Yield the sections about the version of a run.

    Args:
        found: The report of the version for pages.
    """
    version, totals = found.get("version", {}), found.get("totals", {})
    size = {"shards": version.get("shards"), "bytes": version.get("bytes")}
    splits = ", ".join(f"{name} {count}" for name, count in found.get("splits", {}).items())
    yield section("Version", counts(found.get("counts", {}), splits=splits, **size))
    yield from account({**found, "counts": {}})
    yield section("Sources", _sources(found), _more(totals, "sources", found))
    yield section("Records stamped outside of the interval", _late(found.get("late") or {}))
    yield section("Gaps that were allowed", told_lines(found.get("gaps")))
    yield section("Versions of this interval", _generations(found.get("generations", [])))
    yield section("Statistics", _statistics(found), _more(totals, "statistics", found))
    names = ("path", "start", "end", "content_digest", "fingerprint", "code", "plan")
    details = pairs({name.replace("_", " "): version.get(name) for name in names})
    yield f"<details><summary>Digests and places</summary>{details}</details>"


def _late(found: Mapping[str, Any]) -> str:
    names = ("late", "future", "unstamped", "ahead", "refused", "max_lateness_ms")
    counted = {name.replace("_", " "): found.get(name) for name in names if found.get(name)}
    return pairs(counted)


def _sources(found: Mapping[str, Any]) -> str:
    rows = [
        (s.get("source"), _range(s), s.get("records"), s.get("bytes"))
        for s in found.get("sources", [])
    ]
    return table(("source", "range", "records", "bytes"), rows)


def _range(source: Mapping[str, Any]) -> Html:
    start, end = text(source.get("start")), text(source.get("end"))
    return Html(f"[{start}, {end}) {text(source.get('unit'))}")


def _generations(generations: Iterable[Mapping[str, Any]]) -> str:
    rows = [
        (
            f"{g.get('generation')}{' (this one)' if g.get('this') else ''}",
            g.get("samples", ""),
            g.get("quarantined", ""),
            Html(f"<code>{text(g.get('content', ''))}</code>"),
            g.get("why", ""),
        )
        for g in generations
    ]
    return table(("generation", "samples", "quarantined", "content", "why"), rows)


def _statistics(found: Mapping[str, Any]) -> str:
    statistics = found.get("statistics", {})
    names = ("count", "nulls", "min", "max", "mean", "std")
    rows = [(name, *(field.get(n) for n in names)) for name, field in statistics.items()]
    return table(("field", *names), rows)


def _more(totals: Mapping[str, Any], kind: str, found: Mapping[str, Any]) -> str:
    total = totals.get({"statistics": "fields"}.get(kind, kind), 0)
    shown = len(found.get(kind, ()))
    return f'<p class="soft">the first {shown} of {text(total)}</p>' if total > shown else ""


def told_lines(lines: Any) -> str:
    """Return lines as they are; empty without any."""
    return f"<pre>{text(chr(10).join(map(str, lines)))}</pre>" if lines else ""


# --- The trainings of a run's interval as HTML, or why there are none

# Why no training starts for a version that is published.
_DEAF: Final = {"paused": "was paused", "missing": "did not exist"}


def announced(found: Any) -> str:
    """Return the outcome of the events that start trainings, if it is worth a line."""
    if not isinstance(found, Mapping):
        return ""
    lines = []
    if found.get("state") == "declined":
        lines.append(f"No training of this interval starts: {found.get('why')}.")
    if found.get("state") in _DEAF:
        lines.append(
            f"{found.get('dag')} {_DEAF[found['state']]} when this run ended, so it started no"
            f" training. Published intervals that waited for one: {found.get('untrained')}. Once"
            f" {found.get('dag')} is switched on, the next run of this DAG starts them."
        )
    if caught_up := found.get("caught_up"):
        lines.append(
            "Trainings of other published intervals, which no training had read at that time,"
            f" were started as well: {', '.join(caught_up)}."
        )
    return "".join(f"<p>{text(line)}</p>" for line in lines)


def started(trainings: Sequence[Training]) -> str:
    """Return the states of the interval's trainings in one line."""
    states = " ".join(badge(each.state, STATE_KINDS.get(each.state, "")) for each in trainings)
    return f"<p>Trainings of this interval, newest first: {states}</p>" if states else ""


def training_job(training: Training) -> str:
    """Return a training run that the interval started, with a link to its page."""
    state = badge(training.state, STATE_KINDS.get(training.state, ""))
    link = f'<a href="{escape(_address(training))}">Page of this run</a>'
    shown = {"run": training.run_id, **dict(training.job)}
    return section("Training job", f"<p>{state} {link}</p>", pairs(shown))


def _address(training: Training) -> str:
    """Return the relative address of another run's page."""
    run, dag = quote(training.run_id, safe=""), quote(training.dag_id, safe="")
    return f"../../{dag}/runs/{run}"


# --- The model of a training as HTML: its gate, the published version, its promotion

_MODEL: Final = ("model", "version", "job", "path", "files", "bytes", "data", "manifest_sha256")


def gate(found: Any) -> str:
    """Return the gate of a model: each metric, its limits, and the promoted model's value."""
    if not isinstance(found, Mapping) or not isinstance(found.get("metrics"), list):
        return ""
    rows = [
        (
            each.get("metric"),
            Html(text(each.get("value"))),
            _limits_of_metric(each),
            Html(text(each.get("promoted"))),
            Html(badge("passed", "good") if each.get("passed") else badge("failed", "bad")),
        )
        for each in found["metrics"]
        if isinstance(each, Mapping)
    ]
    columns = ("metric", "value", "allowed", "promoted model", "")
    note = f"<p>{text(found.get('note'))}</p>" if found.get("note") else ""
    return section("Gate of the model", table(columns, rows), note)


def model(found: Mapping[str, Any], promotion: Mapping[str, Any]) -> Iterable[str]:
    """Yield the sections of a run's model: gate, version and promotion."""
    if not found:
        return
    yield gate(found.get("gate"))
    data = found.get("data")
    read = ", ".join(map(str, data)) if isinstance(data, list) else data
    yield section("Model", pairs({name: found.get(name) for name in _MODEL} | {"data": read}))
    if promotion:
        leads = {name: promotion.get(name) for name in ("verdict", "prod", "note")}
        yield section("Promotion", pairs(leads))


def _limits_of_metric(each: Mapping[str, Any]) -> str:
    limits = [f"{side} {each[side]}" for side in ("min", "max") if each.get(side) is not None]
    if each.get("max_worse") is not None:
        limits.append(f"worse by at most {each['max_worse']}")
    return ", ".join(limits)


# --- A Spark application on the page of a run: how far it is, and what it took

# The task that runs the application.
SPARK: Final = "spark"
# Number in the report of the task → text on the page.
_NUMBERS: Final = {
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


def spark_progress(told: Mapping[str, Any]) -> str:
    """Return how far an application is by what its task left; empty if it left nothing."""
    return str(told.get("progress") or "")


def application(report: Mapping[str, Any]) -> str:
    """Return what an application took; empty if none ran."""
    if not report.get("build_s"):
        return ""
    told = {text: report[name] for name, text in _NUMBERS.items() if name in report}
    return section("Spark application", pairs(told))


# --- What a run of a form did, as HTML: its result first, then everything else that it told


def told_target(told: Sequence[Mapping[str, Any]]) -> str:
    """Return what a run was about, as ``flights/2013-01-02``; empty if no task has told it."""
    return next((str(each["target"]) for each in told if each.get("target")), "")


def told_results(told: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the results of the tasks of a run; other shapes of values count as nothing."""
    for each in told:
        lines = each.get("lines")
        if isinstance(lines, list) and lines:
            others = (f"<p>{text(line)}</p>" for line in lines[1:])
            yield section("Result", f"<p><strong>{text(lines[0])}</strong></p>", *others)


# --- The sentences on the page of a run of ``uploads.…``: what it started, and what it leaves


def told_uploads(report: Mapping[str, Any]) -> str:
    """Return what a run did with uploads, and what it leaves to a person.

    Args:
        report: The XCom ``uploads`` of the task ``check``; other shapes of values count as nothing.
    """
    told = f"Builds that were started: {len(_names(report, 'builds'))}."
    if newer := _names(report, "newer_than_version"):
        told += (
            f" Published intervals with newer uploads stay as they are: {', '.join(newer)}. To take"
            " the uploads, trigger the build with window_start, and rebuild = why."
        )
    return told


def _names(report: Mapping[str, Any], key: str) -> list[str]:
    found = report.get(key)
    return [str(name) for name in found] if isinstance(found, list) else []


# --- Links from the page of a failed run to the forms that carry out what its message advises

# Stands for the name of the data set in ids of DAGs.
DATASET: Final = "{}"

_COMMAND: Final = re.compile(r"\btrainfeed ([a-z][a-z-]*)")
# Command → the DAG that does the same, and what to choose in its form.
_FORMS: Final[Mapping[str, tuple[str, str]]] = {
    "bring-forward": (f"build.{DATASET}", "a backfill with Outdated: rebuild"),
    "build": (f"build.{DATASET}", "Window start; what else the message names: Rebuild, Outdated"),
    "gc": ("housekeeping", ""),
    "models": ("models", "Action: promote or rollback"),
    "outdated": ("outdated", ""),
    "prune": ("retention", "Data set, first with Dry run"),
    "repair": ("repair", ""),
    "restore": ("withdraw", "Action: restore"),
    "retire": ("retire", "first with Dry run"),
    "tag": ("tag", "Action: tag"),
    "train": (f"train.{DATASET}", ""),
    "untag": ("tag", "Action: untag"),
    "waive": (f"waive.{DATASET}", "then the version is published without another computation"),
    "withdraw": ("withdraw", "Action: withdraw"),
}
# From the page of a run, /trainfeed/dags/DAG/runs/RUN, to the pages of Airflow.
_PAGES: Final = "../../../../dags/"
_HOW: Final = (
    "Open the form in a new tab, with Ctrl-click, the middle button, or a long press, and choose"
    " Trigger there: the Trigger at the top of this page is that of this run's DAG."
)


def forms(messages: Iterable[str], dataset: str, interval: str) -> str:
    """Return links to the forms of the commands in messages; empty if none has a form.

    Args:
        messages: The messages of failed tasks.
        dataset: Name of the data set, "" if it is not known.
        interval: Name of the interval, likewise.
    """
    named = dict.fromkeys(word for each in messages for word in _COMMAND.findall(each))
    found = {_FORMS[word]: None for word in named if word in _FORMS}
    rows = [
        (Html(_link(dag.replace(DATASET, dataset))), chosen)
        for dag, chosen in found
        if dataset or DATASET not in dag
    ]
    values = {"Data set": dataset, "Interval": interval}
    filled = ". ".join(f"{name}: {value}" for name, value in values.items() if value)
    note = f"<p>{text(filled)}</p><p>{_HOW}</p>" if rows else ""
    return section("Forms for what the message advises", table(("form", "choose"), rows), note)


def _link(dag_id: str) -> str:
    address: Any = _PAGES + quote(dag_id, safe="")
    return f'<a href="{escape(address)}">{text(dag_id)}</a>'
