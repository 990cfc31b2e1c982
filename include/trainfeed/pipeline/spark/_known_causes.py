"""What Spark and Java say of a wrong setting or machine → one error with its remedy.

They say it in the output of ``spark-submit``, some of it long before the application ends, and
without the name of the setting.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from trainfeed.config import spark_environ
from trainfeed.errors import ConfigError, EngineError, MemoryLimitError, TrainFeedError
from trainfeed.pipeline.spark._cluster import SparkCluster

__all__ = ["KnownCauses"]

_KEPT: Final = "landing files are kept, nothing was published"


@dataclass(frozen=True)
class _Cause:
    """A cause that a line of output tells.

    Attributes:
        line: What the line has.
        kind: Class of the error: whether another try may help.
        message: Of the error, with ``{java}``, ``{python}`` and ``{master}`` in it.
    """

    line: re.Pattern[str]
    kind: type[TrainFeedError]
    message: str


_CAUSES: Final = (
    _Cause(
        re.compile(r"JAVA_HOME is not set|/bin/java: (No such file|Permission denied|Not a dir)"),
        ConfigError,
        "expected a JDK 17 for Spark, found no java by JAVA_HOME ({java}); install one, or set"
        " JAVA_HOME to its folder; without JAVA_HOME the java on PATH is taken",
    ),
    _Cause(
        re.compile(r"UnsupportedClassVersionError|Unrecognized option: --add-opens"),
        ConfigError,
        "expected a JDK 17 for Spark, found an older one by JAVA_HOME ({java}); install one, and"
        " set JAVA_HOME to its folder",
    ),
    _Cause(
        re.compile(r"_find_spark_home|find-spark-home: line|No module named 'pyspark'"),
        ConfigError,
        "expected an interpreter with pyspark as 'python' of {connection}, got {python}; name that"
        " of the environment of Spark (make setup-spark)",
    ),
    _Cause(
        re.compile(r"either HADOOP_CONF_DIR or YARN_CONF_DIR must be set"),
        ConfigError,
        "expected the folder of YARN's settings for master yarn, the variables HADOOP_CONF_DIR and"
        " YARN_CONF_DIR are not set; set one of them",
    ),
    _Cause(
        re.compile(r"Error occurred during initialization of VM|OutOfMemoryError: Java heap space"),
        MemoryLimitError,
        "Spark's Java has too little memory; raise spark.driver.memory (with master local… all"
        " tasks share it) or spark.executor.memory in 'conf' of {connection}",
    ),
    _Cause(
        re.compile(r"All masters are unresponsive"),
        EngineError,
        "no Spark master answers at {master}; start the cluster, or correct 'master' of"
        " {connection}, then run the build again",
    ),
)


class KnownCauses:
    """Looks for known causes in the output of an application.

    Args:
        cluster: Where it runs.
    """

    def __init__(self, cluster: SparkCluster) -> None:
        self._cluster = cluster
        self._found: tuple[_Cause, str] | None = None

    def look(self, line: str) -> None:
        """Look at a line of the output; the first cause counts, later ones follow from it."""
        if self._found is None:
            cause = next((each for each in _CAUSES if each.line.search(line)), None)
            self._found = None if cause is None else (cause, line)

    def error(self) -> TrainFeedError | None:
        """Return the error of the cause that was found; None without one."""
        if self._found is None:
            return None
        cause, line = self._found
        message = cause.message.format(
            java=spark_environ().get("JAVA_HOME") or "not set",
            python=self._cluster.interpreter() or "the one that Spark chooses",
            master=self._cluster.master,
            connection=self._cluster.connection,
        )
        return cause.kind(f"{message}; {_KEPT}: {line.strip()}")
