"""The trainings of a run's interval as HTML, or why there are none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, Final
from urllib.parse import quote

from plugins._html import STATE_KINDS, badge, pairs, section, text
from plugins._run_facts import Training

__all__ = ["announced", "started", "training_job"]

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
