"""``paddle.dataset.bow``: the public set ``bow`` with the functions of ``paddle.dataset.imdb``.

The original's reviews are not ours to publish, so the module has another name: the same functions
over paragraphs of Python's manual, with two labels. A program for ``imdb`` runs after a change of
its import.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from trainfeed.publicsets import open_public, public_version, word_numbers
from trainfeed.readers import Reader

__all__ = ["test", "train", "word_dict"]

_UNKNOWN: Final = "<unk>"


def word_dict() -> dict[str, int]:
    """Return word → number, by descending frequency; ``<unk>`` is the last.

    Raises:
        ConfigError: No public set is known.
        NotFoundError: The set is not published.
        ChecksumError: The list is not the one that was published.
    """
    return word_numbers(public_version("bow"))


def train(word_idx: Mapping[str, int]) -> Reader:
    """Return a reader over the training paragraphs.

    A sample is a list of the numbers of its words, and a label: 0 is a paragraph about syntax, 1
    one about types and objects.

    Args:
        word_idx: Word → number, such as ``word_dict()``; words that it does not have get the number
            of ``<unk>``.

    Raises:
        KeyError: ``word_idx`` has no ``<unk>``.
        ConfigError: No public set is known.
        NotFoundError: The set is not published.
    """
    return _paragraphs("train", word_idx)


def test(word_idx: Mapping[str, int]) -> Reader:
    """Return a reader over the test paragraphs; see ``train``."""
    return _paragraphs("test", word_idx)


def _paragraphs(split: str, word_idx: Mapping[str, int]) -> Reader:
    unknown = word_idx[_UNKNOWN]
    # From the numbers of the set to those of the caller.
    numbers = [word_idx.get(word, unknown) for word in word_dict()]
    samples = open_public("bow", split=split).reader()

    def read() -> Iterator[tuple[list[int], int]]:
        for sample in samples():
            yield [numbers[word] for word in sample["words"].tolist()], int(sample["label"])

    return read
