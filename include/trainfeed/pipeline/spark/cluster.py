"""The settings of a Spark cluster, and what Spark says of a wrong setting or machine."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, ValidationError, field_validator

from trainfeed.core.config import spark_environ
from trainfeed.errors import ConfigError, EngineError, MemoryLimitError, TrainFeedError

# --- The settings of a Spark cluster: where applications run, and with which Python

SPARK_CONNECTION: Final = "spark_default"

_MASTER: Final = r"^(local(\[(\*|[0-9]+)(,[0-9]+)?\])?|spark://[^\s]+|yarn|k8s://[^\s]+)$"
_OPTION: Final = r"^spark\.[A-Za-z0-9_.-]+$"
_CORES: Final = "spark.executor.cores"
_SUBMIT: Final = "spark-submit"
# What ``make setup-spark`` makes, beside the environment of trainfeed.
_ENVIRONMENT: Final = ".venv-spark"
_EXAMPLE: Final = "{master: 'spark://host:7077', python: /opt/bin/python}"


class SparkCluster(BaseModel):
    """The settings of one cluster.

    Attributes:
        master: ``local[n]``, ``spark://host:port``, ``yarn`` or ``k8s://https://host:port``.
        deploy_mode: Where the driver runs: beside the submitting process, or in the cluster.
        submit: Path of ``spark-submit``; empty for the one beside this interpreter, in a folder
            ``.venv-spark`` beside its environment, where ``make setup-spark`` puts it, or on PATH.
        python: Interpreter of driver and executors; empty for the one beside ``submit``.
        conf: Options of Spark, ``spark.…``; they may hold secrets, and are never shown.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    master: Annotated[str, Field(pattern=_MASTER)] = "local[*]"
    deploy_mode: Literal["client", "cluster"] = "client"
    submit: str = ""
    python: str = ""
    conf: Mapping[Annotated[str, Field(pattern=_OPTION)], str] = Field(
        default_factory=dict, repr=False
    )
    _connection: str = PrivateAttr(SPARK_CONNECTION)

    def model_post_init(self, context: str | None) -> None:
        """Note the connection that the settings are of."""
        self._connection = context or SPARK_CONNECTION

    @field_validator("conf")
    @classmethod
    def _check_cores(cls, conf: Mapping[str, str]) -> Mapping[str, str]:
        if not re.fullmatch("[1-9][0-9]*", conf.get(_CORES, "1")):
            raise ValueError(f"{_CORES} is no whole number above 0")
        return conf

    @property
    def connection(self) -> str:
        """Id of the connection, for messages."""
        return self._connection

    @property
    def executor_cores(self) -> int:
        """How many tasks an executor runs at once."""
        return int(self.conf.get(_CORES, "1"))

    @classmethod
    def of(
        cls, settings: Mapping[str, Mapping[str, Any]], connection: str = SPARK_CONNECTION
    ) -> Self:
        """Return the cluster of a connection; the defaults for ``spark_default`` without settings.

        Args:
            settings: Settings by connection id.
            connection: The id.

        Raises:
            ConfigError: There are none, or one is unknown or wrong; the message has no values.
        """
        if connection not in settings and connection != SPARK_CONNECTION:
            raise _no_settings(settings, connection)
        try:
            found = cls.model_validate(settings.get(connection, {}), context=connection)
        except ValidationError as error:
            wrong = "; ".join(
                f"{'.'.join(map(str, each['loc']))}: {each['msg'].removeprefix('Value error, ')}"
                for each in error.errors(include_input=False, include_url=False)
            )
            raise ConfigError(
                f"expected settings of a Spark cluster for {connection}, got {wrong}; nothing"
                f" was started; change them: {connection}: {_EXAMPLE}"
            ) from None
        if found.deploy_mode == "cluster" and not found.has_cluster_mode:
            raise ConfigError(
                "expected deploy_mode cluster beside master yarn or k8s://…, which alone run Python"
                f" drivers, got {found.master}; nothing was started; leave deploy_mode out"
            )
        return found

    @property
    def has_cluster_mode(self) -> bool:
        """Whether the cluster can run the driver."""
        return self.master == "yarn" or self.master.startswith("k8s://")

    @property
    def is_local(self) -> bool:
        """Whether driver and executors are one process."""
        return self.master.startswith("local")

    def program(self) -> str:
        """Return the path of ``spark-submit``.

        Raises:
            ConfigError: There is no such program.
        """
        named = [self.submit] if self.submit else [*_environments(), _SUBMIT]
        found = next(filter(None, map(shutil.which, named)), None)
        if found is None:
            raise ConfigError(
                f"expected {self.submit or _SUBMIT}, to submit a Spark application, found no such"
                " program; landing files are kept; install Spark (make setup-spark in the checkout"
                f" of trainfeed), or name its spark-submit as 'submit' of {self.connection}"
            )
        # Its own files, and its interpreter, are beside the program and not beside a link to it.
        return str(Path(found).resolve())

    def interpreter(self) -> str | None:
        """Return the Python of driver and executors; None leaves it to Spark.

        Raises:
            ConfigError: There is no such program.
        """
        if self.python:
            # A driver in the cluster has the interpreter of its machine.
            if self.deploy_mode == "client" and shutil.which(self.python) is None:
                raise ConfigError(
                    f"expected an interpreter as 'python' of {self.connection}, found no program"
                    f" {self.python}; nothing was started; correct it, or leave it out for the one"
                    " beside spark-submit"
                )
            return self.python
        beside = Path(self.program()).parent / "python"
        return str(beside) if beside.exists() else None


def _environments() -> list[str]:
    """Return where ``spark-submit`` is looked for before ``PATH``, as text for ``shutil.which``."""
    own, environment = Path(sys.executable).parent, Path(sys.prefix).parent / _ENVIRONMENT
    return [str(folder / _SUBMIT) for folder in (own, environment / "bin")]


def _no_settings(settings: Mapping[str, Mapping[str, Any]], connection: str) -> ConfigError:
    known = ", ".join(sorted(settings)) or "none"
    return ConfigError(
        f"expected settings of the Spark cluster {connection!r} in the file that TRAINFEED_SPARK"
        f" names, found none; known there: {known}; nothing was started; add them, {connection}:"
        f" {_EXAMPLE}, or name another connection in preprocess.connection or --spark-connection"
    )


# --- What Spark and Java say of a wrong setting or machine → one error with its remedy

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
