"""The option ``--engine`` of builds: where preprocessing runs this time."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from trainfeed.specification import DatasetSpec

__all__ = ["Engine", "EngineChoice", "with_engine"]


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


def with_engine(spec: DatasetSpec, engine: Engine | None) -> DatasetSpec:
    """Return a specification with the asked engine, or as it is for None."""
    if engine is None:
        return spec
    preprocess = spec.preprocess.model_copy(update={"engine": engine.value})
    return spec.model_copy(update={"preprocess": preprocess})
