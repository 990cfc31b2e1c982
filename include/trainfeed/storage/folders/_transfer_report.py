"""The report of one transfer."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

__all__ = ["TransferReport"]


@dataclass(frozen=True)
class TransferReport:
    """The result of one transfer, which is complete when this value exists.

    Attributes:
        source: URI of the folder that was read.
        target: URI of the folder that is there now.
        verdict: ``copied``, or ``adopted`` if an equal folder was there already.
        files: Number of files, without the manifest.
        num_bytes: Sum of their sizes.
        manifest_sha256: SHA-256 of the folder's manifest in hex; it identifies the content.
        is_proven: Whether the source had a manifest, or is a folder of this machine. If False, the
            files have the sizes, and as far as the store has them the checksums, that the store
            said before and after the copy, and no more is known.
        leftovers: Names beside the target of unfinished transfers that may still run, and of
            killed ones that could not be removed.
    """

    source: str
    target: str
    verdict: Literal["copied", "adopted"]
    files: int
    num_bytes: int
    manifest_sha256: str
    is_proven: bool
    leftovers: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON values, for reports."""
        return {**asdict(self), "leftovers": list(self.leftovers)}
