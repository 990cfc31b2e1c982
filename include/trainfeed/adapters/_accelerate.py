"""Batches as accelerate hands them out, of loaders that have shared out the samples already."""

from __future__ import annotations

from typing import Any

from trainfeed.adapters._batches import Batches, framework
from trainfeed.adapters._passes import hold_ranks
from trainfeed.adapters._torch import TorchBatches

__all__ = ["prepared_batches"]

_accelerate = framework("accelerate.data_loader")
_data = framework("torch.utils.data")


def prepared_batches(loader: Batches, accelerator: Any, *, check_ranks: bool) -> Any:
    """Return what ``accelerator.prepare`` would, without sharing out anything."""
    if check_ranks:
        hold_ranks(loader, accelerator.process_index, accelerator.num_processes, "accelerate")
    batches = _accelerate.prepare_data_loader(
        _data.DataLoader(TorchBatches(loader, check_ranks=check_ranks), batch_size=None),
        device=accelerator.device,
        num_processes=1,
        process_index=0,
        put_on_device=accelerator.device_placement,
        dispatch_batches=False,
        non_blocking=accelerator.non_blocking,
        use_stateful_dataloader=accelerator.use_stateful_dataloader,
    )
    # With this mark accelerator.prepare() takes the batches as they are, and keeps their state.
    batches._is_accelerate_prepared = True  # noqa: SLF001
    # Accelerate counts epochs by itself; the loader may go on in a later one.
    due = getattr(loader, "due", None)
    batches.set_epoch(0 if due is None else due.epoch)
    return batches
