"""``python -m deploy.init``: prepares an Airflow before its parts start.

The program migrates the database, writes the password of the user, makes the pools, and tests the
folders of the connections, so that a wrong one fails here and not in the first task. The program
ends with status 0, may run again at any time, and is the service ``init`` of docker-compose.yaml.

Besides the settings of Airflow it reads ``ADMIN_PASSWORD`` and ``POOLS``, a JSON object in the form
of ``airflow pools import``.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from trainfeed.errors import ConfigError, TrainFeedError

_ADMIN: Final = "admin"
# Slots of pools that only data sets name: without the pool, their tasks would never start.
_DEFAULT_SLOTS: Final = 8


def migrate() -> None:
    """Migrate the database to this Airflow's version; the first time, make its tables."""
    command: Callable[[], None] = import_module("airflow.__main__").main
    sys.argv = ["airflow", "db", "migrate"]
    command()


def make_pools(given: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Make or change the given pools, and make the pools that only data sets name.

    Args:
        given: Pool → ``slots``, ``description`` and ``include_deferred``.

    Returns:
        Names of the pools that were made only because data sets name them.
    """
    pool: Any = import_module("airflow.models.pool").Pool
    for name, wanted in given.items():
        pool.create_or_update_pool(name, **wanted)
    missing = [
        name for name in sorted(_named_pools() - given.keys()) if pool.get_pool(name) is None
    ]
    for name in missing:
        pool.create_or_update_pool(name, _DEFAULT_SLOTS, "named by a data set", False)
    return missing


def main() -> None:
    """Prepare Airflow.

    Raises:
        ConfigError: A variable is missing or wrong; the message has its name.
        TrainFeedError: A connection or the publication root is wrong.
    """
    password, pools = _variable("ADMIN_PASSWORD"), _pools(_variable("POOLS"))
    migrate()
    _write_password(password)
    made = make_pools(pools)
    print(f"pools: {', '.join([*pools, *made])}")
    print(f"versions go to {_try_places()}")


def _variable(name: str) -> str:
    value = os.environ.get(name, "")
    if not value:
        raise ConfigError(f"expected the variable {name}, got none; .env.example describes it")
    return value


def _pools(text: str) -> dict[str, dict[str, Any]]:
    try:
        return {
            name: {
                "slots": int(pool["slots"]),
                "description": str(pool.get("description", "")),
                "include_deferred": bool(pool.get("include_deferred", False)),
            }
            for name, pool in json.loads(text).items()
        }
    except (ValueError, AttributeError, KeyError, TypeError) as error:
        raise ConfigError(
            'expected POOLS to be JSON like {"kafka_reads": {"slots": 4, "description": "…"}}, got'
            f" {text!r}"
        ) from error


def _write_password(password: str) -> None:
    conf: Any = import_module("airflow.configuration").conf
    file = Path(conf.get("core", "simple_auth_manager_passwords_file"))
    temporary = file.with_suffix(".tmp")
    temporary.touch(mode=0o600)
    temporary.write_text(json.dumps({_ADMIN: password}))
    temporary.replace(file)


def _named_pools() -> set[str]:
    from operators.connections import datasets_folder
    from trainfeed.specification import DatasetSpec, load_specs

    specs = [spec for spec in load_specs(datasets_folder()) if isinstance(spec, DatasetSpec)]
    return {spec.resources.pool for spec in specs if spec.resources.pool}


def _try_places() -> str:
    """Resolve the connections as a task does, and probe the publication root."""
    from operators.connections import environment_from_connections
    from trainfeed.core.config import KAFKA_CONNECTION
    from trainfeed.files.stores import posix
    from trainfeed.versions import require_root

    env = environment_from_connections([KAFKA_CONNECTION])
    require_root(Path(env.root), env.root_setting)
    posix.probe(Path(env.root))
    return env.root


if __name__ == "__main__":
    try:
        main()
    except TrainFeedError as error:
        sys.exit(str(error))
