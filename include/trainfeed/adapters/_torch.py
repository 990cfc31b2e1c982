"""Batches of torch tensors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from numpy.typing import NDArray

from trainfeed.adapters._batches import Batches, dense, framework, plain_columns
from trainfeed.errors import ConfigError

__all__ = ["TorchBatches"]

_torch = framework("torch")
_data = framework("torch.utils.data")
_IterableDataset: Any = _data.IterableDataset


class TorchBatches(_IterableDataset):  # type: ignore[misc]
    """An iterable data set of whole batches.

    Args:
        loader: What yields the batches.
    """

    def __init__(self, loader: Batches) -> None:
        super().__init__()
        self._loader: Any = loader

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Start a pass.

        Raises:
            ConfigError: A worker process of torch's DataLoader asks: every worker would yield all
                batches.
        """
        if _data.get_worker_info() is not None:
            raise ConfigError(
                "expected torch's DataLoader with num_workers=0: trainfeed's loader has workers of"
                " its own, and each of torch's would deliver every batch once more; set"
                " num_workers on trainfeed.DataLoader"
            )
        for columns in plain_columns(self._loader):
            yield {name: _tensor(values) for name, values in columns}

    def __len__(self) -> int:
        """How many batches a pass has, where the loader knows."""
        return len(self._loader)

    def state_dict(self) -> dict[str, Any]:
        """Return the loader's state."""
        state: dict[str, Any] = self._loader.state_dict()
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Hand a state to the loader."""
        self._loader.load_state_dict(state)


def _tensor(values: NDArray[Any]) -> Any:
    if values.dtype == object:
        return values.tolist()
    return _torch.from_numpy(dense(values))
