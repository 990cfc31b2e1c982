"""The settings of a Spark cluster: where applications run, and with which Python."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from trainfeed.errors import ConfigError

__all__ = ["SPARK_CONNECTION", "SparkCluster"]

SPARK_CONNECTION: Final = "spark_default"

_MASTER: Final = r"^(local(\[(\*|[0-9]+)(,[0-9]+)?\])?|spark://[^\s]+|yarn|k8s://[^\s]+)$"
_OPTION: Final = r"^spark\.[A-Za-z0-9_.-]+$"
_CORES: Final = "spark.executor.cores"
_SUBMIT: Final = "spark-submit"
_EXAMPLE: Final = f"{SPARK_CONNECTION}: {{master: 'spark://host:7077', python: /opt/bin/python}}"


class SparkCluster(BaseModel):
    """The settings of one cluster.

    Attributes:
        master: ``local[n]``, ``spark://host:port``, ``yarn`` or ``k8s://https://host:port``.
        deploy_mode: Where the driver runs: beside the submitting process, or in the cluster.
        submit: Path of ``spark-submit``; empty for the one beside this interpreter, or on PATH.
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

    @field_validator("conf")
    @classmethod
    def _check_cores(cls, conf: Mapping[str, str]) -> Mapping[str, str]:
        if not re.fullmatch("[1-9][0-9]*", conf.get(_CORES, "1")):
            raise ValueError(f"{_CORES} is no whole number above 0")
        return conf

    @property
    def executor_cores(self) -> int:
        """How many tasks an executor runs at once."""
        return int(self.conf.get(_CORES, "1"))

    @classmethod
    def of(cls, settings: Mapping[str, Mapping[str, Any]]) -> Self:
        """Return the cluster of the connection ``spark_default``; the defaults without one.

        Raises:
            ConfigError: A setting is unknown or wrong; the message has no values.
        """
        try:
            found = cls.model_validate(settings.get(SPARK_CONNECTION, {}))
        except ValidationError as error:
            wrong = "; ".join(
                f"{'.'.join(map(str, each['loc']))}: {each['msg'].removeprefix('Value error, ')}"
                for each in error.errors(include_input=False, include_url=False)
            )
            raise ConfigError(
                f"expected settings of a Spark cluster for {SPARK_CONNECTION}, got {wrong}; nothing"
                f" was started; change them: {_EXAMPLE}"
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
        beside = Path(sys.executable).parent / _SUBMIT
        found = shutil.which(self.submit or (beside if beside.exists() else _SUBMIT))
        if found is None:
            raise ConfigError(
                f"expected {self.submit or _SUBMIT}, to submit a Spark application, found no such"
                " program; landing files are kept; install Spark (make setup-spark), and name its"
                f" spark-submit as 'submit' of {SPARK_CONNECTION}"
            )
        return found

    def interpreter(self) -> str | None:
        """Return the Python of driver and executors; None leaves it to Spark.

        Raises:
            ConfigError: There is no such program.
        """
        if self.python:
            # A driver in the cluster has the interpreter of its machine.
            if self.deploy_mode == "client" and shutil.which(self.python) is None:
                raise ConfigError(
                    f"expected an interpreter as 'python' of {SPARK_CONNECTION}, found no program"
                    f" {self.python}; nothing was started; correct it, or leave it out for the one"
                    " beside spark-submit"
                )
            return self.python
        beside = Path(self.program()).parent / "python"
        return str(beside) if beside.exists() else None
