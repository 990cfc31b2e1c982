"""Labelled files that people upload: checked, received in an order, and read as labels by key."""

from __future__ import annotations

from typing import TYPE_CHECKING

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


__getattr__ = on_demand(__name__, __file__)
