"""Labelled files that people upload: checked, received in an order, and read as labels by key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trainfeed.lazy_faces import on_demand

if TYPE_CHECKING:
    from trainfeed.uploads._announced import mark_announced, unannounced
    from trainfeed.uploads._applied import AppliedUpload, applied_uploads, labels_of
    from trainfeed.uploads._check import UploadsReport, check_uploads
    from trainfeed.uploads._first_look import first_look
    from trainfeed.uploads._interval_states import IntervalUploads, interval_uploads
    from trainfeed.uploads._label_rows import LabelFields
    from trainfeed.uploads._label_table import HASH, KEY, Labels, hash_of_key, label_column
    from trainfeed.uploads._left_to_do import LeftToDo, left_to_do
    from trainfeed.uploads._receipt import Receipt, Refusal
    from trainfeed.uploads._receipt_book import ReceiptBook
    from trainfeed.uploads._removed_uploads import (
        UploadsRemoval,
        keeping,
        lift_empty_folder,
        take_bytes,
        take_upload,
        write_uploads_removal,
    )

__all__ = [
    "HASH",
    "KEY",
    "AppliedUpload",
    "IntervalUploads",
    "LabelFields",
    "Labels",
    "LeftToDo",
    "Receipt",
    "ReceiptBook",
    "Refusal",
    "UploadsRemoval",
    "UploadsReport",
    "applied_uploads",
    "check_uploads",
    "first_look",
    "hash_of_key",
    "interval_uploads",
    "keeping",
    "label_column",
    "labels_of",
    "left_to_do",
    "lift_empty_folder",
    "mark_announced",
    "take_bytes",
    "take_upload",
    "unannounced",
    "write_uploads_removal",
]

_HOMES: Final = {
    "HASH": "._label_table",
    "KEY": "._label_table",
    "AppliedUpload": "._applied",
    "IntervalUploads": "._interval_states",
    "LabelFields": "._label_rows",
    "Labels": "._label_table",
    "LeftToDo": "._left_to_do",
    "Receipt": "._receipt",
    "ReceiptBook": "._receipt_book",
    "Refusal": "._receipt",
    "UploadsRemoval": "._removed_uploads",
    "UploadsReport": "._check",
    "applied_uploads": "._applied",
    "check_uploads": "._check",
    "first_look": "._first_look",
    "hash_of_key": "._label_table",
    "interval_uploads": "._interval_states",
    "keeping": "._removed_uploads",
    "label_column": "._label_table",
    "labels_of": "._applied",
    "left_to_do": "._left_to_do",
    "lift_empty_folder": "._removed_uploads",
    "mark_announced": "._announced",
    "take_bytes": "._removed_uploads",
    "take_upload": "._removed_uploads",
    "unannounced": "._announced",
    "write_uploads_removal": "._removed_uploads",
}

__getattr__ = on_demand(__name__, _HOMES)
