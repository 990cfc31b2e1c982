"""Actions in the pages of Airflow: log in, fill forms, press buttons, look."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import quote

from docs.authors.screenshots.browser import Browser
from services.airflow import AirflowStack, admin_password
from services.airflow_client import DagRun

__all__ = ["Person"]

_ENTER: Final = "\ue007"
_ESCAPE: Final = "\ue00c"
_ALL: Final = "\ue009a\ue000"  # control A
_DIALOG: Final = "//*[@role='dialog']"
_START: Final = f"{_DIALOG}//*[@id='element_window_start']"
_DATES: Final = "//*[@data-testid='datetime-input']"
_TRIGGER: Final = "//*[@data-testid='trigger-dag-submit']"
_BACKFILL: Final = "//button[contains(., 'Run Backfill')]"
_FRAME: Final = "//iframe[@title='Data set']"
_OPEN: Final = "//*[@data-part='content' and @data-state='open']"
# Name → width, and whether it is dark. The first one is that of every other screenshot.
_VIEWS: Final = {
    "": (1400, False),
    "-dark": (1400, True),
    "-phone": (390, False),
    "-phone-dark": (390, True),
}
_HEIGHT: Final = 1150


class Person:
    """A browser, logged in as ``admin``.

    Args:
        browser: The browser.
        stack: The Airflow whose pages are opened.
        folder: Where screenshots go.
    """

    def __init__(self, browser: Browser, stack: AirflowStack, folder: Path) -> None:
        self._browser, self._stack, self._folder = browser, stack, folder
        self._shots = 0
        self._view("")

    def log_in(self, dag_id: str) -> None:
        """Open a page of a DAG, and log in on the way."""
        self._browser.open(f"{self._stack.url}/dags/{dag_id}")
        self._browser.type("//input[@name='username']", "admin")
        self._browser.type("//input[@name='password']", admin_password(self._stack.home))
        self._browser.click("//button[@type='submit']")
        self._browser.find("//button[contains(., 'Trigger')]")

    def trigger(
        self, dag_id: str, day: str, *, dry_run: bool = False, rebuild: str = "", shot: str = ""
    ) -> None:
        """Fill the form for one interval, which is built again if a reason is given; send it."""
        self._form(dag_id)
        if rebuild:
            self._browser.type(f"{_DIALOG}//*[@id='element_rebuild']", rebuild)
        if "select" in self._browser.attribute(_START, "outerHTML"):
            self._browser.type(f"{_START}//input", day)
            self._browser.type(f"{_START}//input", _ENTER)
        else:
            self._browser.type(_START, _typed(day))
        if dry_run:
            self._browser.click(f"{_DIALOG}//label[.//input[@name='element_dry_run']]")
        if shot:
            self.shoot(shot)
        self._browser.click(_TRIGGER)
        self._browser.gone(_TRIGGER)

    def backfill(self, dag_id: str, first: str, last: str, *, shot: str = "") -> None:
        """Fill the form for a range of days and press the button."""
        self._form(dag_id)
        self._browser.click(f"{_DIALOG}//label[contains(., 'Backfill')]")
        for number, day in enumerate((first, last), start=1):
            self._browser.click(f"({_DATES})[{number}]")
            place = f"{_OPEN}//input[@placeholder='YYYY/MM/DD']"
            self._browser.type(place, day.replace("-", "/"))
            self._browser.type(place, _ENTER)
            self._browser.type(place, _ESCAPE)
        self._browser.type("//input[@name='max_active_runs']", f"{_ALL}2")
        if shot:
            self.shoot(shot)
        self._browser.click(f"{_BACKFILL}[not(@disabled)]")
        self._browser.gone(_BACKFILL)

    def send(
        self,
        dag_id: str,
        fields: Mapping[str, str | bool],
        *,
        failed: DagRun | None = None,
        shot: str = "",
        views: bool = False,
    ) -> None:
        """Fill the form of a DAG that has no interval to choose from, and press the button.

        Args:
            dag_id: The DAG.
            fields: Name → text that is typed or chosen, or whether a box is ticked.
            failed: The run whose page has the link to the form; by default the form is looked up.
            shot: Name of a screenshot of the filled form.
            views: Whether the form is shown in every view.
        """
        self._form(dag_id, next(iter(fields)), failed)
        for name, value in fields.items():
            field = f"{_DIALOG}//*[@id='element_{name}']"
            if isinstance(value, bool):
                box = f"{_DIALOG}//label[.//input[@name='element_{name}']]"
                if ('data-state="checked"' in self._browser.attribute(box, "outerHTML")) != value:
                    self._browser.click(box)
            elif "select" in self._browser.attribute(field, "outerHTML"):
                self._browser.type(f"{field}//input", value)
                self._browser.type(f"{field}//input", _ENTER)
            else:
                is_date = 'type="date"' in self._browser.attribute(field, "outerHTML")
                self._browser.type(field, _typed(value) if is_date else value)
        if shot:
            self._shoot_views(shot) if views else self.shoot(shot)
        self._browser.click(_TRIGGER)
        self._browser.gone(_TRIGGER)
        self._browser.leave()

    def toggle(self, dag_id: str) -> None:
        """Pause a DAG, or let it go on."""
        self._browser.open(f"{self._stack.url}/dags/{dag_id}")
        self._browser.click("//*[@data-testid='toggle-pause']")

    def look_at_run(self, run: DagRun, shot: str, *, expects: str) -> None:
        """Open the tab *Data set* of a run in every view.

        Those of a phone are of the whole page, without Airflow around it.
        """
        self._open_tab(run)
        for view in _VIEWS:
            if "phone" in view:
                self._browser.open(self._bare(run))
                self._browser.find("//h1")
            self._view(view)
            if "phone" in view:
                self._view(view, self._browser.height())
                if cut := self._browser.runs_out():
                    raise AssertionError(f"wider than a phone: {cut}")
            self.shoot(f"{shot}{view}")
        self._view("")
        if expects not in (said := self._browser.text()):
            raise AssertionError(f"expected {expects!r} on the page of {run.run_id}, got {said!r}")

    def look_at_links(self, run: DagRun, shot: str) -> None:
        """Open the details of the last task, with its links."""
        self._browser.open(f"{self._page(run)}/tasks/publish/details")
        self._browser.find("//*[contains(text(), 'Extra Links')]")
        self.shoot(shot)

    def look_at_log(self, run: DagRun, task: str, shot: str) -> None:
        """Open the log of a task."""
        self._browser.open(f"{self._page(run)}/tasks/{task}")
        self._browser.find("//*[contains(text(), 'Error')]")
        self.shoot(shot)

    def look_at_dag(self, dag_id: str, shot: str) -> None:
        """Open the list of runs of a DAG."""
        self._browser.open(f"{self._stack.url}/dags/{dag_id}/runs")
        self._browser.find("//table")
        self.shoot(shot)

    def shoot(self, name: str) -> None:
        """Take a screenshot; its number says when."""
        if not re.fullmatch(r"[a-z0-9-]+", name):
            raise ValueError(f"expected a name like 'trigger', got {name!r}")
        self._shots += 1
        self._browser.shoot(self._folder / f"{self._shots:03}-{name}.png")

    def _open_tab(self, run: DagRun) -> None:
        self._browser.open(f"{self._page(run)}/plugin/data-set")
        self._browser.enter(_FRAME)
        self._browser.find("//h1")
        self._browser.leave()

    def _view(self, name: str, height: int = _HEIGHT) -> None:
        width, dark = _VIEWS[name]
        self._browser.view(width, height, dark=dark)

    def _shoot_views(self, name: str) -> None:
        for view in _VIEWS:
            self._view(view)
            self.shoot(f"{name}{view}")
        self._view("")

    def _form(self, dag_id: str, first: str = "window_start", failed: DagRun | None = None) -> None:
        """Open the form of a DAG, and wait for a field."""
        if failed is None:
            self._browser.open(f"{self._stack.url}/dags/{dag_id}")
        else:
            self._open_tab(failed)
            self._browser.enter(_FRAME)
            self._browser.click(f"//a[.='{dag_id}']")
        self._browser.click("//button[contains(., 'Trigger')]")
        self._browser.find(f"{_DIALOG}//*[@id='element_{first}']")

    def _page(self, run: DagRun) -> str:
        return f"{self._stack.url}/dags/{run.dag_id}/runs/{quote(run.run_id, safe='')}"

    def _bare(self, run: DagRun) -> str:
        run_id = quote(run.run_id, safe="")
        return f"{self._stack.url}/trainfeed/dags/{run.dag_id}/runs/{run_id}"


def _typed(day: str) -> str:
    """Return the keys that a field for dates takes, in the order of its parts."""
    year, month, day_of_month = day.split("-")
    return f"{month}{day_of_month}{year}"
