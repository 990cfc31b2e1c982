"""The code of users: its digest, its libraries, lookup files and documents, and its functions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainfeed.core.lazy_faces import on_demand

if TYPE_CHECKING:
    from trainfeed.functions.cells import typed_cells
    from trainfeed.functions.folder_code import (
        code_texts,
        digest_of_texts,
        document_digests,
        imported_names,
        load_function,
        read_document,
        require_function,
        running_libraries,
    )
    from trainfeed.functions.lookups import (
        guessed_types,
        load_lookup,
        load_lookups,
        lookup_digests,
    )
    from trainfeed.functions.training_code import (
        load_training_function,
        training_texts,
    )

__all__ = [
    "code_texts",
    "digest_of_texts",
    "document_digests",
    "guessed_types",
    "imported_names",
    "load_function",
    "load_lookup",
    "load_lookups",
    "load_training_function",
    "lookup_digests",
    "read_document",
    "require_function",
    "running_libraries",
    "training_texts",
    "typed_cells",
]


__getattr__ = on_demand(__name__)
