"""Lines of text with fields: JSON objects, and CSV whose first line names the columns."""

from __future__ import annotations

import re
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import Field, model_validator

from trainfeed.specification.values import Part, Text, WrongValueError, matching

# A type of a field of a line; text does not say more of a number.
LineType: TypeAlias = Literal["bool", "int64", "float64", "str"]
# Formats whose records are lines, and those of them whose records have fields.
LINE_FORMATS: Final = frozenset({"lines", "json", "csv"})
FIELD_FORMATS: Final = frozenset({"json", "csv"})

_CHARACTER: Final = re.compile(r"[\t -~]")
_NO_MARK: Final = re.compile(r"[A-Za-z0-9+.-]")
_ONE_CHARACTER: Final = matching(_CHARACTER, "one character of ASCII, such as ';' or \"\\t\"")
_NOT_OF_NUMBERS: Final = "a character that is not part of numbers or words"


class CsvSpec(Part):
    """How the cells of a line of CSV are told apart.

    Attributes:
        delimiter: The character between two cells.
        quote: The character around a cell that has delimiters in it, and twice for itself; null if
            there is none, as in most files with tabs.
        nulls: Cells, without quotes around them, that stand for no value.
    """

    delimiter: Annotated[str, _ONE_CHARACTER] = ","
    quote: Annotated[str, _ONE_CHARACTER] | None = '"'
    nulls: Annotated[tuple[str, ...], Field(max_length=100)] = ("",)

    @model_validator(mode="after")
    def _is_clear(self) -> CsvSpec:
        if self.delimiter == self.quote:
            raise WrongValueError("a delimiter and a quote that differ", shows_got=False)
        for mark in filter(None, (self.delimiter, self.quote)):
            if _NO_MARK.fullmatch(mark):
                raise WrongValueError(f"as delimiter and quote {_NOT_OF_NUMBERS}", shows_got=False)
        if any("\n" in each or "\r" in each for each in self.nulls):
            raise WrongValueError("nulls within one line", shows_got=False)
        return self

    def fingerprint(self) -> dict[str, Any]:
        """Return the values that determine the cells."""
        return {"delimiter": self.delimiter, "quote": self.quote, "nulls": list(self.nulls)}


# Name of each field in the line → its type.
LineFields: TypeAlias = Annotated[dict[Text, LineType], Field(min_length=1)]
