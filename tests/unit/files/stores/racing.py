"""Processes that create the same name at the same moment, again and again."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Sequence
from pathlib import Path

from trainfeed.errors import ConflictError
from trainfeed.files.stores import posix

CONTENT_BYTES = 50_000


def race_renames(folders: Sequence[Path], *, rounds: int) -> None:
    """Let one process per folder rename a version of its own onto the name of each round.

    Args:
        folders: The same folder, once per racer, as a path of the mount that the racer uses.
        rounds: How often.
    """
    for number in range(rounds):
        for racer in range(len(folders)):
            staging = folders[0] / f"{number}/staging{racer}"
            staging.mkdir(parents=True)
            (staging / "file").write_bytes(bytes([racer]) * CONTENT_BYTES)
    wins = _race(_rename, folders, rounds)
    for number in range(rounds):
        winner = _the_winner(wins, number)
        for folder in folders:
            assert (folder / f"{number}/final/file").read_bytes() == bytes([winner]) * CONTENT_BYTES
        assert len(list((folders[0] / f"{number}").iterdir())) == len(folders)


def race_creations(folders: Sequence[Path], *, rounds: int) -> None:
    """Let one process per folder create the file of each round; as ``race_renames``."""
    wins = _race(_create, folders, rounds)
    for number in range(rounds):
        winner = _the_winner(wins, number)
        for folder in folders:
            assert (folder / f"{number}").read_bytes() == bytes([winner]) * CONTENT_BYTES
    assert len(list(folders[0].iterdir())) == rounds


def _rename(folder: Path, racer: int, number: int) -> bool:
    try:
        posix.rename_directory(folder / f"{number}/staging{racer}", folder / f"{number}/final")
    except ConflictError:
        return False
    return True


def _create(folder: Path, racer: int, number: int) -> bool:
    path = folder / f"{number}"
    won = posix.create_exclusive(path, bytes([racer]) * CONTENT_BYTES)
    assert path.stat().st_size == CONTENT_BYTES
    return won


def _race(
    attempt: Callable[[Path, int, int], bool], folders: Sequence[Path], rounds: int
) -> list[list[bool]]:
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(len(folders))
    results = context.SimpleQueue()

    def run(racer: int) -> None:
        won = []
        for number in range(rounds):
            barrier.wait(60)
            won.append(attempt(folders[racer], racer, number))
        results.put((racer, won))

    processes = [context.Process(target=run, args=(racer,)) for racer in range(len(folders))]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * len(folders)
    wins = dict(results.get() for _ in processes)
    return [wins[racer] for racer in range(len(folders))]


def _the_winner(wins: list[list[bool]], number: int) -> int:
    winners = [racer for racer, won in enumerate(wins) if won[number]]
    assert len(winners) == 1, f"round {number}: {winners} won"
    return winners[0]
