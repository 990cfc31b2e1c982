"""Batches of torch tensors; refuses combinations with torch that would repeat or lose batches."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, Final

from numpy.typing import NDArray

from trainfeed.adapters.passes import Batches, TensorBatches, dense, framework, hold_ranks
from trainfeed.errors import ConfigError

_torch = framework("torch")
_data = framework("torch.utils.data")
_IterableDataset: Any = _data.IterableDataset
# Modules of torch and accelerate whose loaders start the passes of a data set.
_LOADERS: Final = {"torch.utils.data._utils.fetch", "accelerate.data_loader"}


class TorchBatches(TensorBatches, _IterableDataset):  # type: ignore[misc]
    """An iterable data set of whole batches; see ``TensorBatches``."""

    where = "torch.distributed"

    def __iter__(self) -> Iterator[Any]:
        """Check the calling loader of torch, and start a pass.

        Raises:
            ConfigError: Torch's DataLoader makes batches of the batches, or has worker processes,
                each of which would yield all batches; accelerate divides the batches of a rank
                again; the rank of the loader is not that of the process.
        """
        callers = [*_callers()]
        if _data.get_worker_info() is not None:
            raise ConfigError(
                "expected torch's DataLoader with num_workers=0: trainfeed's loader has workers of"
                " its own, and each of torch's would deliver every batch once more; set"
                " num_workers on trainfeed.DataLoader"
            )
        self._refuse_batching(callers)
        if not _refuse_sharding(self._loader, callers):
            self._check()
        return self._tensors()

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

    def _ranks(self) -> tuple[int, int] | None:
        distributed = framework("torch.distributed")
        # A torch may be built without it.
        if not distributed.is_available() or not distributed.is_initialized():
            return None
        return distributed.get_rank(), distributed.get_world_size()

    def _tensor(self, name: str, values: NDArray[Any]) -> Any:  # noqa: ARG002
        # The tensor shares the memory of the array, and keeps it alive.
        return _torch.from_numpy(dense(values))

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


# --- Batches for accelerate, from loaders that have divided the samples among ranks


def prepared_batches(loader: Batches, accelerator: Any, *, check_ranks: bool) -> Any:
    """Return the result of ``accelerator.prepare``, without dividing batches among ranks."""
    if check_ranks:
        hold_ranks(loader, accelerator.process_index, accelerator.num_processes, "accelerate")
    batches = framework("accelerate.data_loader").prepare_data_loader(
        _data.DataLoader(TorchBatches(loader, check_ranks=check_ranks), batch_size=None),
        device=accelerator.device,
        # One process, as far as accelerate is concerned: the loader has divided the samples
        # already.
        num_processes=1,
        process_index=0,
        put_on_device=accelerator.device_placement,
        dispatch_batches=False,
        non_blocking=accelerator.non_blocking,
        use_stateful_dataloader=accelerator.use_stateful_dataloader,
    )
    # With this mark accelerator.prepare() leaves the batches unchanged, and saves their state.
    batches._is_accelerate_prepared = True  # noqa: SLF001
    # Accelerate counts epochs itself, from 0; a resumed loader starts in a later one.
    due = getattr(loader, "due", None)
    batches.set_epoch(0 if due is None else due.epoch)
    return batches
