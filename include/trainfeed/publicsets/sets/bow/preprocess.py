"""Lines ``label TAB words`` → numbers of words; words that the list does not have share one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa

from trainfeed.preprocessing import Filtered, Record, Reject

UNKNOWN: Final = "<unk>"

# The numbers of the last table: a process gets the same table with every record.
_numbers: tuple[pa.Table | None, dict[str, int]] = (None, {})


def bow(record: Record, lookups: Mapping[str, pa.Table]) -> dict[str, Any] | Filtered:
    """Turn one line into a sample.

    Returns:
        ``words`` int64 (n,), n at least 1, and ``label`` 0 or 1; Filtered ``no_words`` for a
        paragraph of signs only.

    Raises:
        Reject: ``no_tab`` or ``bad_label``.
    """
    label, tab, text = (record.value or b"").decode("utf-8", "replace").partition("\t")
    if not tab:
        raise Reject("no_tab", "expected 'label TAB words'")
    if label not in {"0", "1"}:
        raise Reject("bad_label", f"expected 0 or 1, got {label[:20]!r}")
    numbers = _of(lookups["words"])
    words = [numbers.get(word, numbers[UNKNOWN]) for word in text.split()]
    if not words:
        return Filtered("no_words")
    return {"words": np.array(words, np.int64), "label": int(label)}


def _of(table: pa.Table) -> dict[str, int]:
    global _numbers  # noqa: PLW0603 (an index of the lookup, as long as the table is the same)
    if _numbers[0] is not table:
        words = table.column("word").to_pylist()
        _numbers = (table, {word: number for number, word in enumerate(words)})
    return _numbers[1]
