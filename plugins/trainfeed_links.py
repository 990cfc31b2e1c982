"""The operators' links, registered: `airflow plugins` and the user interface list them."""

from __future__ import annotations

from typing import Final

from airflow.plugins_manager import AirflowPlugin

from operators.recordio_to_cephfs import TrainingRunsLink

__all__ = ["TrainfeedLinksPlugin"]

LINKS: Final = [TrainingRunsLink()]


class TrainfeedLinksPlugin(AirflowPlugin):
    """Every link class that an operator of this repository has."""

    name = "trainfeed_links"
    operator_extra_links = LINKS
