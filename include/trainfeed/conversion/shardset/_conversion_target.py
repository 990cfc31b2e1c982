"""One conversion: what is to be written where, and the way from spilled samples to a set."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from trainfeed import faults
from trainfeed.conversion._conversion_options import ConvertOptions
from trainfeed.conversion.shardset._digested_shards import write_shards
from trainfeed.conversion.shardset._publication import open_staging
from trainfeed.conversion.sorting import RunBuilder, Spill, iter_sorted, num_samples_of
from trainfeed.dataset.shards import Encoding, ShardFormat, ShardInfo, ShardManifest
from trainfeed.paths import check_prefix, num_shards_of, shard_name
from trainfeed.samples import Schema
from trainfeed.whole_numbers import whole

__all__ = ["ConversionTarget"]


@dataclass(frozen=True)
class ConversionTarget:
    """What is to be written where, checked before anything is read.

    Attributes:
        output: Absolute path of the folder.
        num_shards: How many files.
        prefix: Of their names.
        seed: Of the shuffle.
        encoding: What the records are.
        schema: Of typed samples.
        shard_format: How records are stored.

    Raises:
        ConfigError: A number or the prefix is out of range.
    """

    output: Path
    num_shards: int
    prefix: str
    seed: int
    encoding: Encoding
    schema: Schema | None
    shard_format: ShardFormat

    def __post_init__(self) -> None:
        object.__setattr__(self, "num_shards", num_shards_of(self.num_shards))
        object.__setattr__(self, "seed", whole("seed", self.seed))
        check_prefix(self.prefix)

    def shards(self, num_samples: int) -> list[tuple[str, int]]:
        """Return name and number of samples of every shard.

        The first ones get one sample more where it must be.
        """
        each, more = divmod(num_samples, self.num_shards)
        return [
            (shard_name(self.prefix, index, self.num_shards), each + (index < more))
            for index in range(self.num_shards)
        ]

    def manifest(self, shards: tuple[ShardInfo, ...]) -> ShardManifest:
        """Return the manifest of the files that were written."""
        return ShardManifest(
            self.prefix, self.seed, self.encoding, self.schema, self.shard_format, shards
        )

    def fill(self, read: Callable[[RunBuilder], None], options: ConvertOptions) -> ShardManifest:
        """Do the whole conversion in this process.

        Args:
            read: Gives all records to the builder.
            options: Memory, and whom to tell.

        Returns:
            The manifest of what was published.
        """
        with open_staging(self.output, self.prefix) as staging:
            work = staging.folder if options.work_dir is None else Path(options.work_dir)
            with Spill.anonymous(work) as spill:
                runs = RunBuilder(spill, self.seed, 0, options)
                read(runs)
                runs.flush()
                # Its memory is needed again.
                del runs
                faults.point("convert.after_read")
                manifest = self.manifest(tuple(self._write(spill, staging.folder, options)))
            staging.publish(manifest)
        return manifest

    def _write(self, spill: Spill, folder: Path, options: ConvertOptions) -> Iterator[ShardInfo]:
        num_samples, num_written = num_samples_of([spill]), 0
        samples = iter_sorted(
            [spill], 0, num_samples, memory_bytes=options.memory_bytes, consume=True
        )
        wanted = self.shards(num_samples)
        shards = write_shards(samples, folder, wanted, shard_format=self.shard_format)
        for shard in shards:
            num_written += shard.num_records
            if options.on_progress is not None:
                options.on_progress(num_samples, num_written)
            yield shard
