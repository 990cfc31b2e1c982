"""Variables that tell this process its place: rank, job, user of HDFS, public files, servers."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from trainfeed.config._setting_values import root_folder, setting
from trainfeed.errors import ConfigError

__all__ = [
    "CA_FILE",
    "JOB_CODE",
    "JOB_MODEL",
    "JOB_RETRIES",
    "JOB_ROOT",
    "PUBLIC_FOLDER",
    "RENDEZVOUS",
    "TOKEN_FILE",
    "job_model",
    "job_places",
    "name_hadoop_user",
    "name_rank",
    "public_folder",
    "rank_variables",
    "rendezvous",
    "service_files",
]

CA_FILE: Final = "TRAINFEED_CA_FILE"
JOB_CODE: Final = "TRAINFEED_JOB_CODE"
JOB_MODEL: Final = "TRAINFEED_JOB_MODEL"
JOB_RETRIES: Final = "TRAINFEED_RETRIES"
JOB_ROOT: Final = "TRAINFEED_JOB_ROOT"
PUBLIC_FOLDER: Final = "TRAINFEED_PUBLIC"
RENDEZVOUS: Final = "TRAINFEED_RENDEZVOUS"
TOKEN_FILE: Final = "TRAINFEED_TOKEN_FILE"  # noqa: S105 (the name of a variable)


def job_places() -> tuple[Path | None, Path | None]:
    """Return publication root and code folder as a rank sees them; None for one that is not set."""
    root, code = (os.environ.get(name) for name in (JOB_ROOT, JOB_CODE))
    return Path(root) if root else None, Path(code) if code else None


def job_model() -> str | None:
    """The folder that ``TRAINFEED_JOB_MODEL`` names, relative to the root; None in a training."""
    return os.environ.get(JOB_MODEL) or None


def rank_variables(names: Iterable[str]) -> dict[str, str]:
    """What a cluster tells a rank: the variables of these names that are set."""
    return {name: os.environ[name] for name in names if os.environ.get(name)}


def name_rank(values: Mapping[str, str]) -> None:
    """Set variables of this process, by which frameworks find their rank."""
    os.environ.update(values)


def name_hadoop_user(user: str) -> None:
    """Set ``HADOOP_USER_NAME``, from which the client of HDFS takes the user once per process.

    Raises:
        ConfigError: The variable names another user.
    """
    found = os.environ.setdefault("HADOOP_USER_NAME", user)
    if found != user:
        raise ConfigError(
            f"expected HADOOP_USER_NAME to be {user!r}, or not set, got {found!r}; nothing was"
            " transferred; unset it, or name the same user in both places"
        )


def rendezvous() -> str | None:
    """Where the ranks of this job meet, as a URL for frameworks; None where nothing says it."""
    if os.environ.get("MASTER_ADDR") and os.environ.get("MASTER_PORT"):
        return "env://"
    return os.environ.get(RENDEZVOUS) or None


def public_folder() -> Path | None:
    """Return the public folder of the data centre as this machine sees it; None if it is not set.

    Raises:
        ConfigError: The variable does not name a folder of a mounted file system.
    """
    if PUBLIC_FOLDER not in os.environ:
        return None
    return Path(root_folder(PUBLIC_FOLDER, setting(PUBLIC_FOLDER, None, "")))


def service_files() -> tuple[Path | None, Path | None]:
    """Return the files with token and authorities for servers; None for one that is not set."""
    token, authorities = (os.environ.get(name) for name in (TOKEN_FILE, CA_FILE))
    return Path(token) if token else None, Path(authorities) if authorities else None
