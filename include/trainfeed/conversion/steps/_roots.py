"""The folders in which a conversion that was requested over REST or Airflow may read and write."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from trainfeed.datacenters import is_shared, local_source, local_target
from trainfeed.errors import ConfigError
from trainfeed.paths import FilePath, expand_paths
from trainfeed.storage.posix import map_errors

__all__ = ["Roots"]


@dataclass(frozen=True)
class Roots:
    """Folders that a conversion must not leave; paths are compared without symbolic links.

    Attributes:
        inputs: Folders below which files may be read.
        outputs: Folders below which shards may be written.
        work: Folder for the files that the tasks of a conversion exchange.
    """

    inputs: tuple[Path, ...]
    outputs: tuple[Path, ...]
    work: Path

    def __post_init__(self) -> None:
        # Texts are accepted as paths too.
        object.__setattr__(self, "inputs", tuple(map(Path, map(local_source, self.inputs))))
        object.__setattr__(self, "outputs", tuple(map(Path, map(local_target, self.outputs))))
        object.__setattr__(self, "work", Path(local_target(self.work)))

    def input_files(self, pattern: str) -> list[Path]:
        """Return the real paths of the files that a path, a list with commas, or a glob stands for.

        A relative path counts from the first root.

        Raises:
            ConfigError: A file is outside of the roots.
            NotFoundError: A part matches no file.
        """
        parts = [self._absolute(part, self.inputs) for part in pattern.split(",")]
        for part in parts:
            # Checked before the glob is expanded: "no such file" would already tell about other
            # folders.
            _require_within(Path(local_source(part)), self.inputs)
        paths = expand_paths(parts, counts=True)
        return [_require_within(Path(path), self.inputs) for path in paths]

    def require_input(self, path: FilePath) -> None:
        """Check the path of an input.

        Raises:
            ConfigError: The path is outside of the roots.
        """
        _require_within(Path(local_source(path)), self.inputs)

    def output_folder(self, path: str) -> Path:
        """Return the real path of an output folder, which need not exist.

        Raises:
            ConfigError: The path is outside of the roots.
        """
        place = local_target(self._absolute(path, self.outputs))
        return _require_within(Path(place), self.outputs)

    def _absolute(self, path: str, roots: Sequence[Path]) -> str:
        if "\0" in path or not path.strip() or ".." in Path(path).parts:
            raise ConfigError(f"expected a path without '..', got {path!r}")
        return path.strip() if is_shared(path.strip()) else str(roots[0] / path.strip())


def _require_within(path: Path, roots: Sequence[Path]) -> Path:
    with map_errors(path):
        real = path.resolve()
        if any(real.is_relative_to(root.resolve()) for root in roots):
            return real
    allowed = ", ".join(map(str, roots))
    raise ConfigError(f"expected a path below {allowed}, got {path}; move it there")
