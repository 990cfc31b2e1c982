"""The checkpoint from which a training resumes: model and loader, saved together."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from trainfeed.files.stores import Location

__all__ = ["Checkpoint"]


@dataclass(frozen=True)
class Checkpoint:
    """A point between two steps.

    Attributes:
        step: Steps that were made.
        loader: The loader's state; one serves all ranks, of any number.
        parameters: Those of the model.
    """

    step: int
    loader: dict[str, Any]
    parameters: NDArray[np.float64]

    @classmethod
    def read(cls, path: Path) -> Checkpoint | None:
        """Read a checkpoint; None when there is none yet."""
        if not path.exists():
            return None
        with np.load(path) as arrays:
            about = json.loads(str(arrays["about"]))
            return cls(about["step"], about["loader"], arrays["parameters"])

    def write(self, path: Path) -> None:
        """Replace the checkpoint at ``path``, which is complete at any time."""
        about = json.dumps({"step": self.step, "loader": self.loader})

        def save(file: IO[bytes]) -> None:
            np.savez(file, about=np.array(about), parameters=self.parameters)

        Location.parse(str(path.absolute())).write_atomic(save)
