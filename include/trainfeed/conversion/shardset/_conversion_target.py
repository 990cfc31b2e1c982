"""The target of one conversion, and the steps from spilled samples to a published set."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from trainfeed import faults
from trainfeed.conversion._conversion_options import ConvertOptions
from trainfeed.conversion.shardset._digested_shards import write_shards
from trainfeed.conversion.shardset._publication import open_staging
from trainfeed.conversion.sorting import RunBuilder, Spill, iter_sorted, num_samples_of
from trainfeed.datacenters import local_target
from trainfeed.dataset.shards import Encoding, ShardFormat, ShardInfo, ShardManifest
from trainfeed.paths import check_prefix, num_shards_of, shard_name
from trainfeed.samples import Schema
from trainfeed.whole_numbers import whole

__all__ = ["ConversionTarget"]


@dataclass(frozen=True)
class ConversionTarget:
    """The files that a conversion writes; checked before anything is read.

    Attributes:
        output: Absolute path of the folder.
        num_shards: Number of files.
        prefix: Prefix of the file names.
        seed: Seed of the shuffle.
        encoding: Encoding of the records.
        schema: Schema of typed samples; otherwise None.
        shard_format: File format, codec and level.

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

        If the number of samples is not a multiple, the first shards get one sample more.
        """
        each, more = divmod(num_samples, self.num_shards)
        return [
            (shard_name(self.prefix, index, self.num_shards), each + (index < more))
            for index in range(self.num_shards)
        ]

    def manifest(self, shards: tuple[ShardInfo, ...]) -> ShardManifest:
        """Return the manifest of the written files."""
        return ShardManifest(
            self.prefix, self.seed, self.encoding, self.schema, self.shard_format, shards
        )

    def fill(self, read: Callable[[RunBuilder], None], options: ConvertOptions) -> ShardManifest:
        """Run the whole conversion in this process.

        Args:
            read: Function that adds all records to the builder.
            options: Memory, folder and progress function.

        Returns:
            The manifest of the published set.
        """
        with open_staging(self.output, self.prefix) as staging:
            work = (
                staging.folder if options.work_dir is None else Path(local_target(options.work_dir))
            )
            with Spill.anonymous(work) as spill:
                runs = RunBuilder(spill, self.seed, 0, options)
                read(runs)
                runs.flush()
                # The memory of the builder is needed for writing.
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
