"""The variables of processes that this one starts: what programs need, and no credentials."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from trainfeed.config._process_settings import PUBLIC_FOLDER

__all__ = [
    "command_environ",
    "executor_environ",
    "local_folder_of_executor",
    "spark_environ",
    "training_environ",
    "worker_environ",
]

_PACKAGES: Final = Path(__file__).parents[2]
# Variables for the code of data sets. All others stay out, because the environment of an Airflow
# worker has connections and keys.
_INHERITED: Final = (
    "CUDA_VISIBLE_DEVICES",
    "HOME",
    "LANG",
    "LC_ALL",
    "LD_LIBRARY_PATH",
    "OMP_NUM_THREADS",
    "PATH",
    "TMPDIR",
    PUBLIC_FOLDER,
    "TRAINFEED_FAULTS",
    "TRAINFEED_PUBLIC",
    "TZ",
)
# Variables for the clients of storage: names, places, and the place of a Kerberos ticket.
_OF_STORAGE: Final = (
    "HADOOP_CONF_DIR",
    "HADOOP_HOME",
    "HADOOP_PROXY_USER",
    "HADOOP_TOKEN_FILE_LOCATION",
    "HADOOP_USER_NAME",
    "KRB5CCNAME",
    "KRB5_CLIENT_KTNAME",
    "KRB5_CONFIG",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
)
# Variables for spark-submit: where Java and the settings of clusters are.
_OF_SPARK: Final = (
    "JAVA_HOME",
    "KUBECONFIG",
    "SPARK_CONF_DIR",
    "SPARK_HOME",
    "SPARK_LOCAL_DIRS",
    "SPARK_LOCAL_IP",
    "USER",
    "YARN_CONF_DIR",
)
# Spark gives every Python worker the folders of its executor under this name.
_EXECUTOR_FOLDERS: Final = "SPARK_LOCAL_DIRS"


def training_environ(package: str, job: Mapping[str, str]) -> dict[str, str]:
    """Return the variables for a training process: those that programs need, no credentials.

    Args:
        package: Folder of the package trainfeed; becomes the first of ``PYTHONPATH``.
        job: Variables of the job.
    """
    kept = _kept(_INHERITED)
    paths = [package, *filter(None, [os.environ.get("PYTHONPATH")])]
    # No bytecode: Python compares a cached compilation by size and second only, while the code of a
    # job is identified by a digest.
    fixed = {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1"}
    return {**kept, **job, **fixed, "PYTHONPATH": os.pathsep.join(paths)}


def command_environ() -> dict[str, str]:
    """Return all variables of this process, for a command that it runs with the same rights.

    With ``PYTHONPATH``, the command finds the same package trainfeed.
    """
    paths = [str(_PACKAGES), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


def worker_environ() -> dict[str, str]:
    """Return the variables for a process that runs preprocessing functions: no credentials.

    Besides the variables that programs need, these are the ones for clients of storage: the
    process reads landing files or logs, and writes spill files.
    """
    return _kept((*_INHERITED, *_OF_STORAGE))


def spark_environ() -> dict[str, str]:
    """Return the variables for ``spark-submit``: what it and clients of storage need."""
    return _kept((*_INHERITED, *_OF_STORAGE, *_OF_SPARK))


def executor_environ() -> dict[str, str]:
    """Return the variables that executors get from here: the account of HDFS, and faults."""
    return _kept(("HADOOP_USER_NAME", "TRAINFEED_FAULTS"))


def local_folder_of_executor() -> str | None:
    """Return a folder that Spark removes with its executor; None outside of an executor."""
    return os.environ.get(_EXECUTOR_FOLDERS, "").split(",")[0] or None


def _kept(names: Iterable[str]) -> dict[str, str]:
    return {name: os.environ[name] for name in names if name in os.environ}
