"""Runs one target under coverage guidance: ``python tests/fuzz/fuzz.py chunk -max_total_time=120``.

Needs the package ``atheris``, which no other test needs. A name after the target's is a folder
that keeps interesting inputs; all other arguments are libFuzzer's. A finding ends the run, and
its input is written to the current folder.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import atheris

sys.path[:0] = [str(Path(__file__).parents[2] / name) for name in ("include", ".")]

with atheris.instrument_imports(include=["trainfeed", "tests.fuzz"]):
    from tests.fuzz.catalogue import ALL_SEEDS, ALL_TARGETS, mutate
    from trainfeed.errors import TrainFeedError

# Ten seconds and 512 MiB at once for an input of at most 4 KiB: more is a finding. The process may
# grow further: pyarrow keeps some KiB of every compressed stream that it could not read.
_LIMITS = ["-max_len=4096", "-timeout=10", "-malloc_limit_mb=512", "-rss_limit_mb=4096"]
_COLLECT_EVERY = 10_000


def main() -> None:
    """Fuzz the target that the command line names."""
    name, options = sys.argv[1], sys.argv[2:]
    target, calls = ALL_TARGETS[name], 0

    def run(data: bytes) -> None:
        nonlocal calls
        calls += 1
        if calls % _COLLECT_EVERY == 0:
            gc.collect()
        with suppress(TrainFeedError):
            target(data)

    def changed(data: bytes, max_size: int, seed: int) -> bytes:
        return mutate(name, data, seed, lambda each, _: atheris.Mutate(each, max_size))[:max_size]

    kept = options.pop(0) if options and not options[0].startswith("-") else None
    with _corpus(kept) as corpus:
        for number, seed in enumerate(ALL_SEEDS[name]()):
            Path(corpus, f"seed-{number}").write_bytes(seed)
        atheris.Setup([sys.argv[0], corpus, *_LIMITS, *options], run, custom_mutator=changed)
        atheris.Fuzz()


@contextmanager
def _corpus(kept: str | None) -> Iterator[str]:
    if kept is not None:
        Path(kept).mkdir(parents=True, exist_ok=True)
        yield kept
        return
    with TemporaryDirectory() as folder:
        yield folder


if __name__ == "__main__":
    main()
