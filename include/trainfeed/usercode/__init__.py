"""The code of users: its digest, its libraries, lookup files and documents, and its functions."""

from trainfeed.usercode._documents import document_digests, read_document
from trainfeed.usercode._folder_code import (
    code_digest,
    code_texts,
    digest_of_texts,
    imported_names,
    load_function,
    running_libraries,
)
from trainfeed.usercode._lookups import load_lookups, lookup_digests
from trainfeed.usercode._training_code import require_current_names, training_digest
from trainfeed.usercode._training_function import load_training_function
from trainfeed.usercode._user_source import require_function

__all__ = [
    "code_digest",
    "code_texts",
    "digest_of_texts",
    "document_digests",
    "imported_names",
    "load_function",
    "load_lookups",
    "load_training_function",
    "lookup_digests",
    "read_document",
    "require_current_names",
    "require_function",
    "running_libraries",
    "training_digest",
]
