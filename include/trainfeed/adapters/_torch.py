"""Batches of torch tensors; refuses combinations with torch that would repeat or lose batches."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, Final

from numpy.typing import NDArray

from trainfeed.adapters.passes import (
    Adapted,
    Batches,
    converted,
    dense,
    framework,
    hold_ranks,
    marks_padding,
)
from trainfeed.errors import ConfigError

_torch = framework("torch")
_data = framework("torch.utils.data")
_IterableDataset: Any = _data.IterableDataset
# Modules of torch and accelerate whose loaders start the passes of a data set.
_LOADERS: Final = {"torch.utils.data._utils.fetch", "accelerate.data_loader"}


class TorchBatches(Adapted, _IterableDataset):  # type: ignore[misc]
    """An iterable data set of whole batches.

    Args:
        loader: The loader, or another iterable of batches.
        check_ranks: Whether rank and world size of the loader must equal those of the process.
    """

    def __init__(self, loader: Batches, *, check_ranks: bool) -> None:
        super().__init__(loader)
        self._check_ranks = check_ranks

    def __iter__(self) -> Iterator[Any]:
        """Check the calling loader of torch, and start a pass.

        Raises:
            ConfigError: Torch's DataLoader makes batches of the batches, or has worker processes,
                each of which would yield all batches; accelerate divides the batches of a rank
                again; the rank of the loader is not that of the process.
        """
        self._refuse_wiring()
        return self._batches()

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of the next pass; a state that was loaded in this epoch stays valid.

        Raises:
            ConfigError: A state of another epoch was loaded, and would be lost; or accelerate
                would divide the batches of a rank again.
        """
        _refuse_sharding(self._loader, [*_callers()])
        super().set_epoch(epoch)

    def __getattr__(self, name: str) -> Any:
        if name == "dataset":
            raise AttributeError(
                "expected torch's DataLoader, got the data set that trainfeed.adapters.torch makes;"
                " let get_train_dataloader of a Trainer return"
                " trainfeed.adapters.accelerate(loader, self.accelerator)",
                name=name,
                obj=self,
            )
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}", name=name)

    def _batches(self) -> Iterator[Any]:
        marks = marks_padding(self._loader)
        for batch in self._pass():
            yield converted(batch, _tensor, marks=marks)

    def _refuse_wiring(self) -> None:
        callers = [*_callers()]
        if _data.get_worker_info() is not None:
            raise ConfigError(
                "expected torch's DataLoader with num_workers=0: trainfeed's loader has workers of"
                " its own, and each of torch's would deliver every batch once more; set"
                " num_workers on trainfeed.DataLoader"
            )
        self._refuse_batching(callers)
        dispatched = _refuse_sharding(self._loader, callers)
        if self._check_ranks and not dispatched and _distributed().is_initialized():
            ranks = _distributed().get_rank(), _distributed().get_world_size()
            hold_ranks(self._loader, *ranks, "torch.distributed")

    def _refuse_batching(self, callers: list[Any]) -> None:
        for caller in callers:
            # torch's fetcher has auto_collation=True if its DataLoader has a batch_size.
            if getattr(caller, "auto_collation", False) and caller.dataset is self:
                raise ConfigError(
                    "expected torch's DataLoader with batch_size=None, got one that would make"
                    " batches of batches; write DataLoader(batches, batch_size=None), or iterate"
                    " over the adapter itself. A Trainer makes such a loader of train_dataset: let"
                    " its get_train_dataloader return trainfeed.adapters.accelerate(loader,"
                    " self.accelerator)"
                )


def _distributed() -> Any:
    """Return torch.distributed, or a substitute for a torch that was built without it."""
    distributed = framework("torch.distributed")
    return distributed if distributed.is_available() else _NotDistributed


class _NotDistributed:
    @staticmethod
    def is_initialized() -> bool:
        return False


def _refuse_sharding(loader: Batches, callers: list[Any]) -> bool:
    """Return whether accelerate reads on one process for all; refuse loaders of several ranks."""
    accelerate = sys.modules.get("accelerate.data_loader")
    if accelerate is None:
        return False
    share: Any = getattr(loader, "share", None)
    advice = "write trainfeed.adapters.accelerate(loader, accelerator) in place of prepare()"
    dispatched = False
    for caller in callers:
        if isinstance(caller, accelerate.IterableDatasetShard) and caller.num_processes > 1:
            raise ConfigError(
                "expected batches that accelerate does not divide again, got its"
                " dispatch_batches=False, which would leave out whole batches on every process;"
                f" give trainfeed.DataLoader rank and world_size, and {advice}"
            )
        if isinstance(caller, accelerate.DataLoaderDispatcher) and caller.state.num_processes > 1:
            dispatched = True
            if share is not None and share.world_size > 1:
                raise ConfigError(
                    "expected a loader of all samples, because accelerate reads it on process 0"
                    f" alone and sends parts to the others, got one of rank {share.rank} of"
                    f" {share.world_size}: the samples of the other ranks would never come;"
                    f" {advice}"
                )
    return dispatched


def _callers() -> Iterator[Any]:
    """Yield the objects of torch and accelerate in the call stack, the nearest first.

    A data set does not get to know the loader that reads it, so the stack is searched. The
    variables of other frames are not touched: reading ``f_locals`` would keep their objects alive.
    """
    # torch does not tell a data set which loader reads it, so the callers are found on the stack.
    frame = sys._getframe(1)  # noqa: SLF001 - the only way to look at callers
    while frame.f_back is not None:
        frame = frame.f_back
        if frame.f_globals.get("__name__") in _LOADERS:
            yield frame.f_locals.get("self")


def _tensor(name: str, values: NDArray[Any]) -> Any:  # noqa: ARG001
    if values.dtype == object:
        return values.tolist()
    # The tensor shares the memory of the array, and keeps it alive.
    return _torch.from_numpy(dense(values))
