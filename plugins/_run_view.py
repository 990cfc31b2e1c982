"""The page of a run, in the order of a reader's questions: the result, the reason, the inputs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from plugins._html import (
    STATE_KINDS,
    badge,
    document,
    message,
    pairs,
    section,
    text,
)
from plugins._run_facts import Failure, RunFacts, Stage, Training
from plugins._run_parts import (
    SPARK,
    account,
    announced,
    application,
    forms,
    gate,
    model,
    spark_progress,
    started,
    told_lines,
    told_results,
    told_target,
    told_uploads,
    training_job,
    version_parts,
)

__all__ = ["page"]

# State of Airflow → text on the page.
_STATES: Final = {
    "upstream_failed": "not run",
    "skipped": "not needed",
    "up_for_retry": "failed, will be tried again",
    "up_for_reschedule": "waiting",
    "deferred": "waiting",
    "awaiting_input": "waits for an answer",
}
_INTERVAL: Final = re.compile(r"[0-9][A-Za-z0-9._-]{0,199}")
_REFRESH_S: Final = 10
_QUIET: Final = frozenset({"success", "waiting", "scheduled", "queued", "removed"})
_ENDED: Final = frozenset({"success", "failed"})
_NOTHING: Final = "<p>This run has no data set to show.</p>"
_NO_MESSAGE: Final = (
    "The task left no message: it was killed, exceeded its time limit, or has not written it yet."
    " Its log has more: tab Task Instances of the run."
)


def page(facts: RunFacts, trainings: Sequence[Training] = (), note: str = "") -> str:
    """Return the page of a run; for one that no task has left anything of, a page that says so.

    Args:
        facts: Facts about the run.
        trainings: The training runs that its interval started.
        note: HTML with a note about trainings, for example that none can start.
    """
    told = (facts.plan, facts.publish, facts.job, facts.uploads, facts.told)
    if not any((facts.state, facts.stages, facts.failures, *told)):
        return document(_NOTHING)
    refresh = None if not facts.state or facts.state in _ENDED else _REFRESH_S
    return document(*_parts(facts, trainings, note), refresh_s=refresh)


def _parts(facts: RunFacts, trainings: Sequence[Training], note: str) -> Iterable[str]:
    yield _head(facts)
    yield note
    yield from told_results(facts.told)
    yield _steps(facts.stages)
    yield section("Trainings", announced(facts.publish.get("training")), started(trainings))
    yield from map(_why, facts.failures)
    yield _forms(facts)
    yield from map(_account_of_failure, facts.failures)
    if facts.plan.get("dry_run"):
        yield section("What a build would do", told_lines(facts.plan.get("lines")))
    if facts.version:
        yield from version_parts(facts.version)
    elif facts.publish:
        # A run of an older release without this report, or one whose version could not be read.
        yield section("Version", pairs(dict(sorted(facts.publish.items()))))
    elif facts.check.get("report") and not facts.failures:
        yield from account(facts.check["report"])
    yield application(facts.spark)
    for training in trainings:
        yield training_job(training)
        yield from model(training.model, {})
    yield section("Uploads", pairs(facts.uploads))
    if facts.job:
        yield section("Training job", pairs(facts.job))
    yield from model(facts.model, facts.promotion)


def _head(facts: RunFacts) -> str:
    interval = _interval(facts)
    name = told_target(facts.told) or facts.dag_id.partition(".")[2] or facts.dag_id
    title = f"{name} / {interval}" if interval else name
    note = facts.plan.get("note") or facts.publish.get("note")
    return f"<h1>{text(title)} {badge(*_outcome(facts))}</h1>{_told_sentence(facts)}" + (
        f"<p>{text(note)}</p>" if note else ""
    )


def _told_sentence(facts: RunFacts) -> str:
    """Return the result in a sentence, unless the sections below begin with it."""
    is_told = facts.told and facts.state in _ENDED and not facts.failures
    return "" if is_told else f"<p>{text(_sentence(facts))}</p>"


def _interval(facts: RunFacts) -> str:
    trained_on = facts.job.get("intervals") or [""]
    told = facts.publish.get("interval") or facts.plan.get("interval") or trained_on[-1]
    # A plan that failed has left no report, and the note has the interval since the start.
    noted = facts.note if not facts.is_form and _INTERVAL.fullmatch(facts.note) else ""
    return str(told or noted)


def _forms(facts: RunFacts) -> str:
    """Return links to the forms of what the messages of failed tasks advise."""
    messages = [str(failure.told.get("message", "")) for failure in facts.failures]
    dataset, interval = facts.dag_id.partition(".")[2], _interval(facts)
    if facts.is_form and not dataset:
        target = re.fullmatch(r"([a-z][a-z0-9_]*)(?:[/@](.*))?", told_target(facts.told))
        dataset, interval = (target[1], target[2] or "") if target else ("", "")
    return forms(messages, dataset, interval)


def _outcome(facts: RunFacts) -> tuple[str, str]:
    if facts.failures:
        return ("failed", "bad") if facts.state == "failed" else ("will be tried again", "bad")
    if facts.plan.get("dry_run"):
        return "dry run", ""
    if facts.plan.get("verdict") == "skipped":
        return "left out", ""
    if facts.publish:
        verdict = str(facts.publish.get("verdict", "built"))
        return {"built": "published"}.get(verdict, verdict), "good"
    return facts.state or "unknown", STATE_KINDS.get(facts.state, "")


def _sentence(facts: RunFacts) -> str:
    """Return the result of the run, in a sentence or two."""
    if facts.failures:
        return _failed(facts)
    if planned := _only_planned(facts):
        return planned
    if facts.publish or facts.uploads:
        return _published(facts) if facts.publish else told_uploads(facts.uploads)
    if facts.job:
        name, version = facts.model.get("model"), facts.model.get("version")
        made = f" Model {name}/{version}." if facts.model else ""
        return f"Job {facts.job.get('job')}: {facts.job.get('verdict')}.{made}"
    if at := [stage for stage in facts.stages if stage.state not in _QUIET]:
        return f"At task {at[-1].task_id}: {_progress(at[-1], facts)}."
    return "No task left a report." if facts.state in _ENDED else "No task has started yet."


def _only_planned(facts: RunFacts) -> str:
    """Return the result of a run that ended with its plan; otherwise empty."""
    if facts.plan.get("dry_run"):
        return "Nothing was written, and no training starts."
    if facts.plan.get("verdict") == "skipped":
        return "The interval is left out; nothing was built."
    return ""


def _failed(facts: RunFacts) -> str:
    tasks = ", ".join(dict.fromkeys(failure.task_id for failure in facts.failures))
    what = "Nothing was published by this run." if facts.is_build else "No job is finished."
    if facts.uploads:
        what = told_uploads(facts.uploads)
    if facts.job:
        what = "The training has a result; no model was promoted by this run."
    if facts.is_form:
        what = "Its result stands below." if facts.told else ""
    return f"Task {tasks} failed. {'' if facts.publish else what}"


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


def _empty(version: Mapping[str, Any]) -> str:
    """Return why a version has no samples; empty if it has some."""
    reasons = version.get("empty_because")
    if reasons and isinstance(reasons, Mapping):
        said = "; ".join(f"{source}: {reason}" for source, reason in reasons.items())
        return f" The version is empty: {said}."
    return " The version is empty: its source has no records." if version.get("empty") else ""


def _passed_over(version: Mapping[str, Any]) -> str:
    """Return which entries of the folder of logs were not read; empty if there were none."""
    told = version.get("passed_over")
    return f" Passed over in the folder of logs: {told}." if told else ""


def _progress(stage: Stage, facts: RunFacts) -> str:
    if stage.task_id == SPARK and stage.state == "running":
        return spark_progress(facts.spark_told) or "the application starts"
    return ", ".join(f"{count} {state}" for state, count in sorted(stage.states.items()))


def _steps(stages: Sequence[Stage]) -> str:
    marks = []
    for stage in stages:
        count = sum(stage.states.values())
        done = stage.states.get("success", 0)
        number = f" {done}/{count}" if count > 1 else ""
        state = _STATES.get(stage.state, stage.state.replace("_", " "))
        shown = f"{stage.task_id}{number}: {state}"
        marks.append(badge(shown, STATE_KINDS.get(stage.state, "")))
    return f'<div class="steps">{"".join(marks)}</div>' if marks else ""


def _why(failure: Failure) -> str:
    """Return why a task failed: its message, or the first line and the remedy of a long one."""
    told = failure.told
    unit = f" (unit {failure.map_index})" if failure.map_index >= 0 else ""
    again = " It will be tried again." if failure.state == "up_for_retry" else ""
    title = f"Why {failure.task_id}{unit} failed"
    if not told:
        return section(title, f"<p>{text(_NO_MESSAGE + again)}</p>")
    said = str(told.get("message", "")).splitlines() or [""]
    kind = f"<p>{badge(str(told.get('error', 'error')), 'bad')} {text(again)}</p>"
    if not _is_accounted(failure):
        return section(title, kind, message(told.get("message", "")))
    # Only the first line and the remedy: the tables below show the middle of the message.
    remedy = f"<p>{text(' '.join(map(_as_sentence, said[-2:])))}</p>"
    return section(title, kind, message(said[0]), remedy)


def _account_of_failure(failure: Failure) -> str:
    """Return the tables behind the message of a failed task; empty if it has none."""
    told = failure.told
    report = told.get("report")
    if isinstance(report, Mapping) and "gate" in report:
        return gate(report["gate"])
    if not isinstance(report, Mapping) or not _is_accounted(failure):
        return ""
    whole = f"<details><summary>The whole message</summary>{message(told['message'])}</details>"
    return "".join(account(report)) + whole


def _is_accounted(failure: Failure) -> bool:
    """Return whether the tables of a failed build say what its message says."""
    report = failure.told.get("report")
    return isinstance(report, Mapping) and bool(report) and "gate" not in report


def _as_sentence(line: str) -> str:
    return f"{line[:1].upper()}{line[1:].removesuffix('.')}." if line else ""
