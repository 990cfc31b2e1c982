"""The word list of a public set of texts."""

from __future__ import annotations

from trainfeed.errors import FormatError
from trainfeed.publicsets._public_version import PublicVersion

__all__ = ["word_numbers"]

_WORD_LIST = "words.csv"


def word_numbers(found: PublicVersion) -> dict[str, int]:
    """Return word → number, by descending frequency; the last is ``<unk>``, for all other words.

    Raises:
        NotFoundError: The set has no word list.
        ChecksumError: The list is not the one that was published.
        FormatError: The list is no list of words.
    """
    head, *words = found.version.document(_WORD_LIST).decode().splitlines()
    if head != "word" or not words or len(set(words)) != len(words):
        raise FormatError(
            "expected the column 'word' with different words; nothing was read",
            path=str(found.version.path / "documents" / _WORD_LIST),
        )
    return {word: number for number, word in enumerate(words)}
