"""Take the screenshots of this folder: `python docs/screenshots/take.py`, with Chromium installed.

It builds three days of flights in a place of its own, through an Airflow of its own, logs in as a
person does, and looks at the forms and pages. README.md here says what they show.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Final
from urllib.parse import quote

HERE: Final = Path(__file__).resolve().parent
REPOSITORY: Final = HERE.parents[1]
sys.path[:0] = [str(REPOSITORY), str(REPOSITORY / "include")]

from docs.screenshots.browser import Browser  # noqa: E402
from examples.daily import places  # noqa: E402
from services._airflow_config import admin_password  # noqa: E402
from services.airflow import AirflowOptions, AirflowStack  # noqa: E402

BUILD: Final = "build.flights"
FIRST: Final = datetime(2013, 1, 1, tzinfo=UTC)
LAST: Final = datetime(2013, 1, 3, tzinfo=UTC)
RUN_S: Final = 300.0
# The whole form fits.
HEIGHT: Final = 1250


def main() -> None:
    """Start Airflow, build, look, and stop it."""
    home = Path(tempfile.mkdtemp(prefix="trainfeed-screenshots-"))
    home.chmod(0o711)  # the database runs as another account
    places.make_lookups()
    place = places.embedded(home)
    stack = AirflowStack(place.home, environ=place.environ, options=AirflowOptions(paused=False))
    try:
        stack.start()
        stack.wait()
        stack.wait_for_dags([BUILD, "train.flights"])
        run_id = build(stack)
        with Browser(height=HEIGHT) as browser:
            log_in(browser, stack)
            shoot_forms(browser, stack.url)
            shoot_run(browser, f"{stack.url}/dags/{BUILD}/runs/{quote(run_id, safe='')}")
    finally:
        stack.stop()
        shutil.rmtree(home)


def build(stack: AirflowStack) -> str:
    """Backfill three days; returns the last one's run."""
    stack.client.backfill(BUILD, FIRST, LAST, max_active_runs=4)
    runs = stack.client.wait_for(stack.client.dag_runs(BUILD), RUN_S)
    if any(run.state != "success" for run in runs):
        raise SystemExit(f"{BUILD} failed")
    return runs[-1].run_id


def log_in(browser: Browser, stack: AirflowStack) -> None:
    """Be asked who we are, and say it."""
    browser.open(f"{stack.url}/dags/{BUILD}")
    browser.type("//input[@name='username']", "admin")
    browser.type("//input[@name='password']", admin_password(stack.home))
    browser.click("//button[@type='submit']")
    browser.find("//button[contains(., 'Trigger')]")


def shoot_forms(browser: Browser, url: str) -> None:
    """The form that triggers one run, and the one for a backfill."""
    browser.open(f"{url}/dags/{BUILD}")
    browser.click("//button[contains(., 'Trigger')]")
    browser.find("//input[@name='element_window_start']")
    browser.shoot(HERE / "trigger.png")
    browser.click("//*[@role='dialog']//label[contains(., 'Backfill')]")
    browser.type("//input[@name='max_active_runs']", "\ue009a\ue0004")  # control A, then 4
    browser.shoot(HERE / "backfill.png")


def shoot_run(browser: Browser, url: str) -> None:
    """A run's tasks, its version and training job, and the links of its last task."""
    browser.open(url)
    browser.find("//*[contains(text(), 'RecordIOToCephFSOperator')]")
    browser.shoot(HERE / "run.png")
    browser.open(f"{url}/plugin/data-set")
    browser.find("//iframe[@title='Data set']")
    browser.shoot(HERE / "data-set.png")
    browser.open(f"{url}/tasks/publish/details")
    browser.find("//*[contains(text(), 'Extra Links')]")
    browser.shoot(HERE / "links.png")


if __name__ == "__main__":
    main()
