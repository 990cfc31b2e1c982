"""Labelled files that people upload: checked, received in an order, and read as labels by key."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainfeed.core.lazy_faces import on_demand

if TYPE_CHECKING:
    from trainfeed.uploads.check import UploadsReport, check_uploads
    from trainfeed.uploads.files import LabelFields, first_look
    from trainfeed.uploads.join import AppliedUpload, applied_uploads, labels_of
    from trainfeed.uploads.labels import HASH, KEY, Labels, hash_of_key, label_column
    from trainfeed.uploads.receipts import (
        Receipt,
        ReceiptBook,
        Refusal,
        mark_announced,
        unannounced,
    )
    from trainfeed.uploads.removal import (
        UploadsRemoval,
        keeping,
        lift_empty_folder,
        take_bytes,
        take_upload,
        write_uploads_removal,
    )
    from trainfeed.uploads.states import IntervalUploads, LeftToDo, interval_uploads, left_to_do

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


__getattr__ = on_demand(__name__)
