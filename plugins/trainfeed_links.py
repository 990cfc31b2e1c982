"""The plugin: links of tasks, tab *Data set* and note of a run, and the timetable.

Every process of Airflow loads this file, so the page itself is imported at its first request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from airflow.plugins_manager import AirflowPlugin
from airflow.sdk.configuration import conf

from operators.links import LINKS
from operators.timetable import TIMETABLES
from plugins import _run_notes

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send


_PREFIX: Final = "/trainfeed"
# The address of Airflow may have a path.
_BASE: Final = urlsplit(str(conf.get("api", "base_url", fallback=""))).path.rstrip("/")


async def _run_page(scope: Scope, receive: Receive, send: Send) -> None:
    from plugins._run_page import app  # noqa: PLC0415 - see above

    await app(scope, receive, send)


class TrainfeedLinksPlugin(AirflowPlugin):
    """The classes that Airflow finds only through a plugin, the page of a run, and its note."""

    name = "trainfeed_links"
    operator_extra_links = LINKS
    timetables = TIMETABLES
    listeners = [_run_notes]  # noqa: RUF012
    fastapi_apps = [{"name": "Data set of a run", "app": _run_page, "url_prefix": _PREFIX}]  # noqa: RUF012
    external_views = [  # noqa: RUF012
        {
            "name": "Data set",
            "href": f"{_BASE}{_PREFIX}/dags/{{DAG_ID}}/runs/{{RUN_ID}}",
            "destination": "dag_run",
            "url_route": "data-set",
        }
    ]
