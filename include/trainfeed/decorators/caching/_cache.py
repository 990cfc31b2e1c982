"""``cache``: the first pass reads all samples, later passes use the kept ones."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from trainfeed.datacenters import local_target
from trainfeed.decorators._reader_stage import (
    BlockStage,
    ReaderStage,
    block_reader,
    count,
    open_blocks,
    open_samples,
)
from trainfeed.decorators._start import Start
from trainfeed.decorators.caching._kept_pass import Kept
from trainfeed.decorators.caching._store import StoreLimits
from trainfeed.errors import MemoryLimitError, QuotaExceededError
from trainfeed.readers import Block, BlockReader, Reader, ReaderLike

__all__ = ["cache"]

DEFAULT_MAX_BYTES: Final = 1 << 30
DEFAULT_MAX_SPILL_BYTES: Final = 16 << 30


def cache(
    reader: ReaderLike,
    *,
    max_bytes: int = DEFAULT_MAX_BYTES,
    spill_dir: str | Path | None = None,
    max_spill_bytes: int | None = DEFAULT_MAX_SPILL_BYTES,
) -> Reader:
    """Return a reader over the same samples that calls ``reader`` once.

    The first request for a sample, in any pass or thread, reads all samples;
    ``multiprocess_reader`` and loaders with a child process read them before they fork. A fork of
    another kind that comes before the first request reads for itself. All passes have the order of
    pass 0, also passes that skip samples. An error of the reader is raised after the samples before
    it; then no sample is kept, and the next pass reads again. Samples in memory are the same
    objects in every pass, samples on disk are new objects. The memory, and the file, which has no
    name, are freed with the reader.

    Args:
        reader: A finite reader.
        max_bytes: Limit for samples in memory, by estimates of their sizes; further samples go to
            a file.
        spill_dir: Folder of the file; None is the temporary folder of the system.
        max_spill_bytes: Limit for the file; None sets no limit.

    Raises:
        ValueError: A limit is negative.
        MemoryLimitError: The samples take more than both limits; raised by the first pass.
        QuotaExceededError: The disk is full; raised by the first pass.
    """
    count("max_bytes", max_bytes, at_least=0)
    if max_spill_bytes is not None:
        count("max_spill_bytes", max_spill_bytes, at_least=0)
    limits = StoreLimits(
        max_bytes, max_spill_bytes, None if spill_dir is None else str(local_target(spill_dir))
    )
    source = block_reader(reader)
    return _Cached(reader, limits) if source is None else _CachedBlocks(source, limits)


class _Keeping(ReaderStage):
    """A stage whose passes all repeat one pass of the reader below."""

    _kept: Kept

    def set_epoch(self, epoch: int) -> None:
        """Do nothing: every pass repeats pass 0 of the reader below."""

    def before_fork(self) -> None:
        """Read all samples now, so that forks share them."""
        try:
            self._kept.fill()
        except (MemoryLimitError, QuotaExceededError):
            raise
        except Exception:  # noqa: BLE001 (a fork meets the error again, and reports it)
            return


class _Cached(_Keeping):
    def __init__(self, reader: ReaderLike, limits: StoreLimits) -> None:
        self._kept = Kept(functools.partial(open_samples, reader), limits)
        batched = getattr(reader, "batched", False)
        super().__init__([reader], self._kept.items_from, batched=batched)


class _CachedBlocks(_Keeping, BlockStage):
    def __init__(self, source: BlockReader, limits: StoreLimits) -> None:
        self._kept = Kept(functools.partial(open_blocks, source), limits)
        super().__init__([source], self._blocks_from, form=source.form, batched=source.batched)

    def _blocks_from(self, start: Start) -> Iterator[Block]:
        if self.batched:
            return self._kept.items_from(start)
        return self._kept.rows_from(start)
