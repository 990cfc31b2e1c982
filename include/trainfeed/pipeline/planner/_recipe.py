"""Everything about a data set, besides its inputs, that determines the content of a version.

The fingerprint is the digest of these values and the inputs. The planner compares it with that of
the published version, and so does the search for outdated versions: both use this module.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from trainfeed.dataset.manifest import FORMAT
from trainfeed.intervals import Interval, format_time
from trainfeed.pipeline._ref import JsonObject
from trainfeed.pipeline.plans import Planned
from trainfeed.reading_rules import NEWEST, ReadingRules
from trainfeed.specification import DatasetSpec, fingerprint_fields
from trainfeed.uploads import AppliedUpload
from trainfeed.usercode import code_texts, digest_of_texts, document_digests, lookup_digests

__all__ = ["Recipe"]


@dataclass(frozen=True)
class Recipe:
    """Specification, code, lookups and documents of a data set, as they are now.

    Attributes:
        spec: The data set.
        code: Digest of the code.
        texts: Name → content of the files of the code, in path order.
        lookups: Name → SHA-256 of the lookup files.
        documents: Name → SHA-256 of the documents.
    """

    spec: DatasetSpec
    code: str
    texts: Mapping[str, bytes]
    lookups: Mapping[str, str]
    documents: Mapping[str, str]

    @classmethod
    def of(cls, spec: DatasetSpec) -> Recipe:
        """Read and digest the files of a data set.

        Raises:
            ConfigError: A file is missing, or a module imports code from outside its folder.
            StorageError: A file cannot be read.
        """
        texts = code_texts(spec)
        code = digest_of_texts(texts)
        return cls(spec, code, texts, lookup_digests(spec), document_digests(spec))

    @property
    def code_files(self) -> dict[str, str]:
        """Name → SHA-256 of the files of the code, in path order."""
        return {name: hashlib.sha256(text).hexdigest() for name, text in self.texts.items()}

    def fingerprint_of(
        self,
        interval: Interval,
        inputs: Mapping[str, Planned],
        uploads: Sequence[AppliedUpload],
        rules: ReadingRules = NEWEST,
    ) -> JsonObject:
        """Return everything that determines the content of a version.

        Args:
            interval: The interval.
            inputs: Source string → planned input.
            uploads: The uploads of the interval, in order of arrival.
            rules: The rules by which values are read: the newest for a new version, those of a
                published version to compare with it.
        """
        return {
            "format": FORMAT,
            "dataset": self.spec.name,
            "interval": {"start": format_time(interval.start), "end": format_time(interval.end)},
            "inputs": {source: planned.fingerprint() for source, planned in inputs.items()},
            "spec": fingerprint_fields(self.spec, rules),
            "code": self.code,
            "lookups": dict(self.lookups),
            # Left out where there is none: fingerprints of earlier versions stay the same.
            **({"documents": dict(self.documents)} if self.documents else {}),
            **self._uploads_fingerprint(uploads),
            **self._reading_rules(rules),
        }

    def _reading_rules(self, rules: ReadingRules) -> JsonObject:
        """Return the number of the rules; nothing for the first ones, and where none matters."""
        if rules is ReadingRules.GUESSED or not self.spec.follows_reading_rules:
            return {}
        return {"reading_rules": int(rules)}

    def _uploads_fingerprint(self, uploads: Sequence[AppliedUpload]) -> JsonObject:
        """Return the uploads in order of arrival; nothing for a data set without the part."""
        if self.spec.uploads is None:
            return {}
        return {"uploads": [upload.fingerprint() for upload in uploads]}
