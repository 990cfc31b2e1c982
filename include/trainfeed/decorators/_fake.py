"""``Fake``: one sample again and again, to measure everything but reading."""

from __future__ import annotations

from collections.abc import Iterator

from trainfeed.decorators._stage import Stage, count
from trainfeed.errors import LoaderError
from trainfeed.readers import Reader, ReaderLike, Sample, open_reader

__all__ = ["Fake"]


class Fake:
    """Makes readers that keep the first sample of another one and repeat it."""

    def __call__(self, reader: ReaderLike, data_num: int) -> Reader:
        """Return a reader that gives the first sample of ``reader`` ``data_num`` times.

        The sample is drawn when the first pass starts, and once.

        Raises:
            ValueError: ``data_num`` is negative.
            LoaderError: ``reader`` gives no sample; raised by a pass.
        """
        times = count("data_num", data_num, at_least=0)
        kept: list[Sample] = []

        def samples() -> Iterator[Sample]:
            if not kept:
                with open_reader(reader) as iterator:
                    for sample in iterator:
                        kept.append(sample)
                        break
                    else:
                        raise LoaderError("expected at least one sample to repeat, got none")
            for _ in range(times):
                yield kept[0]

        return Stage([reader], samples, batched=getattr(reader, "batched", False))
