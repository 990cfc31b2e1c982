"""What ``make ui`` takes of the settings of commands, as connections of its Airflow.

Commands find brokers, folders and clusters in ``TRAINFEED_*``, an Airflow among its connections. A
person who has built in a terminal and opens Airflow there expects the same places: each setting
that is set takes the place of the one below ``data/``.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from trainfeed.core.config import (
    LOGS_CONNECTION,
    Environment,
    KafkaSettings,
    environment_from_environ,
)
from trainfeed.core.datacenters import is_shared
from trainfeed.pipeline.spark.cluster import SPARK_CONNECTION

__all__ = ["SETTINGS", "connections_of", "settings_told", "taken_environment"]

# The settings of commands that become connections, or go to the processes of Airflow as they are.
SETTINGS: Final = (
    "TRAINFEED_DATA", "TRAINFEED_ROOT", "TRAINFEED_LANDING", "TRAINFEED_WORK", "TRAINFEED_KAFKA",
    "TRAINFEED_LOGS", "TRAINFEED_MODELS", "TRAINFEED_CONNECTIONS", "TRAINFEED_SPARK",
    "TRAINFEED_CLUSTERS", "TRAINFEED_TRACKERS", "TRAINFEED_REGISTRY", "TRAINFEED_REGISTRIES",
    "TRAINFEED_CATALOG", "TRAINFEED_CATALOGS", "TRAINFEED_DATASETS",
)  # fmt: skip
_SPARK_EXTRAS: Final = {"deploy_mode": "deploy-mode", "submit": "spark-binary", "python": "python"}


def taken_environment(data: Path) -> Environment:
    """Return the environment of this process, with places below ``data`` where nothing is set.

    Args:
        data: Folder of ``root``, ``landing``, ``work`` and ``recorded``, and start of log files,
            unless ``TRAINFEED_DATA`` names another.

    Raises:
        ConfigError: A setting is not valid; the message names the variable.
    """
    if "TRAINFEED_DATA" in os.environ:
        return environment_from_environ()

    def unset(variable: str, default: str) -> str | None:
        return None if variable in os.environ else default

    found = environment_from_environ(
        root=unset("TRAINFEED_ROOT", str(data / "root")),
        landing=unset("TRAINFEED_LANDING", str(data / "landing")),
        work=unset("TRAINFEED_WORK", str(data / "work")),
        kafka=unset("TRAINFEED_KAFKA", f"recorded:{data / 'recorded'}"),
        logs=unset("TRAINFEED_LOGS", str(data)),
    )
    models = unset("TRAINFEED_MODELS", str(data))
    if models is None:
        return found
    return replace(found, stores={**found.stores, LOGS_CONNECTION: models})


def connections_of(env: Environment, data: Path) -> dict[str, str]:
    """Return the variables of an Airflow whose connections name the places of an environment.

    Args:
        env: The places.
        data: Folder of the files that conversions may use.
    """
    found = {f"AIRFLOW_CONN_{name.upper()}": made for name, made in _connections(env, data).items()}
    return {
        **{name: json.dumps(made) for name, made in found.items()},
        "TRAINFEED_DATASETS": str(env.datasets),
    }


def settings_told() -> list[str]:
    """Return the settings of this process that name places, each as ``VARIABLE=value``."""
    return [
        f"{name}={_without_account(os.environ[name])}" for name in SETTINGS if name in os.environ
    ]


def _without_account(value: str) -> str:
    scheme, separator, rest = value.partition("://")
    return value if not separator else f"{scheme}://{rest.rpartition('@')[2]}"


def _connections(env: Environment, data: Path) -> dict[str, dict[str, Any]]:
    root, files = _root(env), data / "files"
    conversions = {
        "inputs": [str(files), root],
        "outputs": [str(files)],
        "work": str(data / "convert"),
    }
    sparks = {SPARK_CONNECTION: {}, **env.spark}
    others = (env.logs.keys() | env.stores.keys()) - {LOGS_CONNECTION}
    return {
        **{name: _generic(settings) for name, settings in env.clusters.items()},
        **{name: _generic(settings) for name, settings in env.trackers.items()},
        **{name: _generic(settings) for name, settings in env.registries.items()},
        **{name: _generic(settings) for name, settings in env.catalogs.items()},
        **{name: _spark(settings) for name, settings in sparks.items()},
        **{name: _files(_starts(env, name)) for name in others},
        **{name: _kafka(settings) for name, settings in env.kafka.items()},
        "cephfs_default": _generic({"path": root}),
        "convert_default": _generic(conversions),
        LOGS_CONNECTION: _files(
            {"landing": env.landing, "work": env.work, **_starts(env, LOGS_CONNECTION)}
        ),
    }


def _root(env: Environment) -> str:
    """Return the root as its connection names it: of a public one, the name that says so."""
    given = os.environ.get("TRAINFEED_ROOT", "")
    return given if env.is_root_public and is_shared(given) else env.root


def _starts(env: Environment, name: str) -> dict[str, str]:
    places = {"logs": env.logs, "models": env.stores}
    return {key: found[name] for key, found in places.items() if name in found}


def _generic(extra: Mapping[str, Any]) -> dict[str, Any]:
    return {"conn_type": "generic", "extra": dict(extra)}


def _files(extra: Mapping[str, str]) -> dict[str, Any]:
    return {"conn_type": "file", "extra": dict(extra)}


def _kafka(settings: KafkaSettings) -> dict[str, Any]:
    extra = dict(settings.client)
    if settings.recorded is not None:
        extra = {"recorded": settings.recorded}
    return {"conn_type": "kafka", "extra": extra}


def _spark(settings: Mapping[str, Any]) -> dict[str, Any]:
    extra = {_SPARK_EXTRAS.get(name, name): value for name, value in settings.items()}
    return {"conn_type": "spark", "host": extra.pop("master", "local[*]"), "extra": extra}
