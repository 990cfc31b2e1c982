"""The arguments of a program on several ranks, and its notes of the samples that arrived."""

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Asked:
    """The arguments of a program that trains for two epochs, saves a state, and may die.

    Args:
        path: The record files.
        folder: Where the state lies; it is loaded if it is there.
        notes: Where every rank notes its batches.
        saved: After how many steps the state is saved.
        dies_at: The step at whose start every rank ends without a word; 0 for none.
        more: What only some programs take.
    """

    path: Path
    folder: Path
    notes: Path
    saved: int
    dies_at: int
    more: tuple[str, ...]

    @classmethod
    def of_argv(cls):
        path, folder, notes, saved, dies_at, *more = sys.argv[1:]
        return cls(Path(path), Path(folder), Path(notes), int(saved), int(dies_at), tuple(more))

    def arguments(self):
        given = self.path, self.folder, self.notes, self.saved, self.dies_at, *self.more
        return [str(value) for value in given]

    def noted(self, rank):
        """The ids of every batch that a rank noted."""
        return [json.loads(line) for line in self.of_rank(rank).read_text().splitlines()]

    def of_rank(self, rank):
        return self.notes / f"{rank}.jsonl"


class Notes:
    """The batches that a rank was given, each a line of a file as soon as it is there."""

    def __init__(self, asked, rank):
        self._dies_at, self.num_steps = asked.dies_at, 0
        self._file = asked.of_rank(rank).open("w")

    def add(self, ids):
        self.num_steps += 1
        if self.num_steps == self._dies_at:
            os._exit(9)
        self._file.write(json.dumps(ids) + "\n")
        self._file.flush()
