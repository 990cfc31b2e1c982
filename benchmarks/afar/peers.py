# ruff: noqa: PLC0415 - systems that cannot live in one process
"""MosaicML Streaming and LitData behind the same line, in an environment of their own.

``python benchmarks/afar/peers.py write NAME FOLDER MEGABYTES SHARD_MEGABYTES`` writes the set,
``… read NAME REMOTE CACHE CACHE_BYTES COUNT SPEC`` reads it, and prints seconds, rows and bytes of
the line for each epoch, as JSON. SPEC is JSON: ``shuffle``, ``epochs``, ``workers``, and ``more``,
the options of the set. Credentials and endpoint are in the environment.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

BATCH = 64
ROW_BYTES = 16_000


def main() -> None:
    """Write or read, as the arguments say."""
    verb, name = sys.argv[1:3]
    if verb == "write":
        folder, megabytes, shard_megabytes = Path(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5])
        WRITERS[name](folder, megabytes << 20, shard_megabytes << 20)
        return
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # libraries print
    remote, cache, cache_bytes, counter = sys.argv[3], sys.argv[4], int(sys.argv[5]), sys.argv[6]
    spec = json.loads(sys.argv[7])
    loader = READERS[name](remote, cache, cache_bytes, spec)
    count = np.memmap(counter, np.uint64, "r", shape=(1,))
    found = []
    for _ in range(spec["epochs"]):
        start_s, before = time.perf_counter(), int(count[0])
        rows = sum(len(batch["label"]) for batch in loader)
        found.append((time.perf_counter() - start_s, rows, int(count[0]) - before))
    answers.write(json.dumps(found))
    answers.flush()
    os._exit(0)  # threads of these libraries outlive a reader


def rows_of(num_bytes: int) -> tuple[int, np.random.Generator]:
    """Return the number of samples of a set, and what makes their bytes."""
    return num_bytes // ROW_BYTES, np.random.default_rng(7)


class Sample:
    """One sample by its number; LitData's worker makes them."""

    def __call__(self, number: int) -> dict[str, Any]:
        generator = np.random.default_rng(number)
        return {"image": generator.integers(0, 256, ROW_BYTES, np.uint8), "label": number}


def write_streaming(folder: Path, num_bytes: int, shard_bytes: int) -> None:
    """MDS, uncompressed, columns of fixed shape."""
    from streaming import MDSWriter

    columns = {"image": f"ndarray:uint8:{ROW_BYTES}", "label": "int64"}
    count, generator = rows_of(num_bytes)
    with MDSWriter(out=str(folder), columns=columns, size_limit=shard_bytes) as writer:
        for number in range(count):
            image = generator.integers(0, 256, ROW_BYTES, np.uint8)
            writer.write({"image": image, "label": np.int64(number)})


def write_litdata(folder: Path, num_bytes: int, shard_bytes: int) -> None:
    """Chunks, uncompressed, by one worker."""
    import litdata

    litdata.optimize(
        fn=Sample(),
        inputs=list(range(rows_of(num_bytes)[0])),
        output_dir=str(folder),
        chunk_bytes=shard_bytes,
        num_workers=1,
        verbose=False,
        start_method="fork",
    )


def read_streaming(
    remote: str, cache: str, cache_bytes: int, spec: dict[str, Any]
) -> Iterable[dict[str, Any]]:
    """Return its own loader; the order is ``py1e``, its default."""
    from streaming import StreamingDataLoader, StreamingDataset
    from streaming.base.util import clean_stale_shared_memory

    clean_stale_shared_memory()  # of a case that was ended
    data = StreamingDataset(
        remote=remote,
        local=cache,
        cache_limit=cache_bytes,
        shuffle=spec["shuffle"],
        batch_size=BATCH,
        **spec["more"],
    )
    return StreamingDataLoader(data, batch_size=BATCH, **_workers(spec))


def read_litdata(
    remote: str, cache: str, cache_bytes: int, spec: dict[str, Any]
) -> Iterable[dict[str, Any]]:
    """Return its own loader."""
    import litdata
    from litdata.streaming import downloader

    # Its faster way, obstore, would refuse the server, which has no TLS.
    downloader._OBSTORE_CLIENT_OPTIONS["allow_http"] = True  # noqa: SLF001
    data = litdata.StreamingDataset(
        remote,
        cache_dir=cache,
        max_cache_size=cache_bytes,
        shuffle=spec["shuffle"],
        storage_options={"endpoint_url": os.environ["AWS_ENDPOINT_URL"]},
        **spec["more"],
    )
    return litdata.StreamingDataLoader(data, batch_size=BATCH, **_workers(spec))


def _workers(spec: dict[str, Any]) -> dict[str, Any]:
    more = {"persistent_workers": True, "prefetch_factor": 4} if spec["workers"] else {}
    return {"num_workers": spec["workers"], **more}


WRITERS = {"streaming": write_streaming, "litdata": write_litdata}
READERS = {"streaming": read_streaming, "litdata": read_litdata}


if __name__ == "__main__":
    main()
