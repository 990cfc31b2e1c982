"""The options ``--engine`` and ``--spark-connection``: where preprocessing runs this time."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from trainfeed.errors import ConfigError
from trainfeed.specification import DatasetSpec

__all__ = ["Engine", "EngineChoice", "SparkConnection", "engine_options", "with_engine"]


class Engine(StrEnum):
    """The engines of ``preprocess.engine``."""

    LOCAL = "local"
    SPARK = "spark"


EngineChoice = Annotated[
    Engine | None,
    typer.Option(
        help="Where records are preprocessed and shards written: in processes of this machine, or"
        " on the Spark cluster of TRAINFEED_SPARK. By default as dataset.yaml says; the published"
        " bytes are the same."
    ),
]


SparkConnection = Annotated[
    str | None,
    typer.Option(
        help="The connection of the Spark cluster: a key of the file that TRAINFEED_SPARK names."
        " By default as dataset.yaml says."
    ),
]


def with_engine(spec: DatasetSpec, engine: Engine | None, connection: str | None) -> DatasetSpec:
    """Return a specification with the asked engine and connection, or as it is for None.

    Raises:
        ConfigError: A connection is asked for, and the engine is local.
    """
    asked = {"engine": engine and engine.value, "connection": connection}
    update = {name: value for name, value in asked.items() if value is not None}
    preprocess = spec.preprocess.model_copy(update=update)
    if connection is not None and preprocess.engine != "spark":
        raise ConfigError(
            f"expected the engine spark beside --spark-connection, got {preprocess.engine}; nothing"
            " was started; add --engine spark, or leave the connection out"
        )
    return spec.model_copy(update={"preprocess": preprocess})


def engine_options(spec: DatasetSpec) -> list[str]:
    """Return the options with which another command makes the same choice."""
    if spec.preprocess.engine != "spark":
        return [f"--engine={spec.preprocess.engine}"]
    return ["--engine=spark", f"--spark-connection={spec.preprocess.connection}"]
