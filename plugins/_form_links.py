"""Links from the page of a failed run to the forms that carry out what its message advises.

The messages of trainfeed name commands. Who reads one in a browser has forms in their place: the
DAGs that do the same. Airflow cannot fill in a form by its address, so the page shows the values.
The frame of the tab may open no window and not leave the page around it, so a plain click shows
Airflow once more within the tab; a click that the browser itself takes for a new tab does not.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from html import escape
from typing import Any, Final
from urllib.parse import quote

from plugins._html import Html, section, table, text

__all__ = ["DATASET", "forms"]

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
