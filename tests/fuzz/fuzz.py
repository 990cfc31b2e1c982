"""Runs one target under coverage guidance: ``python tests/fuzz/fuzz.py chunk -max_total_time=120``.

Needs the package ``atheris``, which no other test needs. Everything after the target's name is
libFuzzer's. A finding ends the run, and its input is written to the current folder.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import atheris

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[2] / "include")]

with atheris.instrument_imports(include=["trainfeed", "targets"]):
    from targets import MUTATORS, SEEDS, TARGETS

    from trainfeed.errors import TrainFeedError


def main() -> None:
    """Fuzz the target that the command line names."""
    name, options = sys.argv[1], sys.argv[2:]
    target, repair = TARGETS[name], MUTATORS.get(name)

    def run(data: bytes) -> None:
        with suppress(TrainFeedError):
            target(data)

    def mutate(data: bytes, max_size: int, seed: int) -> bytes:
        mutated = atheris.Mutate(data, max_size)
        # One in four stays damaged, so that the checksums are tried too.
        return repair(mutated)[:max_size] if repair and seed % 4 else mutated

    with TemporaryDirectory() as corpus:
        for number, seed in enumerate(SEEDS[name]()):
            Path(corpus, f"seed-{number}").write_bytes(seed)
        arguments = [sys.argv[0], corpus, "-max_len=4096", "-timeout=10", *options]
        atheris.Setup(arguments, run, custom_mutator=mutate if repair else None)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
