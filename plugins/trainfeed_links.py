"""The operators' links, registered: `airflow plugins` and the user interface list them."""

from __future__ import annotations

from airflow.plugins_manager import AirflowPlugin

from operators.links import LINKS

__all__ = ["TrainfeedLinksPlugin"]


class TrainfeedLinksPlugin(AirflowPlugin):
    """Every link class that an operator of this repository has."""

    name = "trainfeed_links"
    operator_extra_links = LINKS
