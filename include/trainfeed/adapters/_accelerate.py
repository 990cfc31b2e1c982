"""Batches for accelerate, from loaders that have divided the samples among ranks."""

from __future__ import annotations

from typing import Any

from trainfeed.adapters._torch import TorchBatches
from trainfeed.adapters.passes import Batches, framework, hold_ranks

_accelerate = framework("accelerate.data_loader")
_data = framework("torch.utils.data")


def prepared_batches(loader: Batches, accelerator: Any, *, check_ranks: bool) -> Any:
    """Return the result of ``accelerator.prepare``, without dividing batches among ranks."""
    if check_ranks:
        hold_ranks(loader, accelerator.process_index, accelerator.num_processes, "accelerate")
    batches = _accelerate.prepare_data_loader(
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
