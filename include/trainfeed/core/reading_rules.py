"""The rules by which values of files are read, each set of them with a number.

A rule that changes would change what published intervals were made of, if they were compared,
repaired or replayed by the new one. So a set of rules never changes: it gets a successor. Plans and
manifests have the number of the set by which their version was read; without a number it is the
first one. Only data sets that the rules concern have a number, so that others keep their
fingerprints.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final


class ReadingRules(IntEnum):
    """A set of rules; later ones have larger numbers.

    Attributes:
        GUESSED: Types of CSV lookups are guessed from their cells. A text of a CSV upload loses a
            backslash in front. A whole number of an upload is rounded where a float cannot hold it,
            and ``-0`` is 0. Fields of splits are compared by their bits. A record without a time
            stamp is of 1969.
        EXACT: Cells of CSV lookups are text, or of the types that dataset.yaml declares. Texts of
            uploads are as they stand, and numbers that a field cannot hold are refused, as are
            columns of times. Equal numbers stay in one split. A record without a time stamp has
            none.
    """

    GUESSED = 1
    EXACT = 2


NEWEST: Final = ReadingRules.EXACT
