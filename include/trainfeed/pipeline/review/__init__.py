"""A closer look at quarantined records: whole from landing, and through the function of today."""

from trainfeed.pipeline.review._inspected import InspectedRecord, inspect_records
from trainfeed.pipeline.review._quarantine_preview import preview_quarantine
from trainfeed.pipeline.review._reason_outcome import QuarantinePreview, ReasonOutcome

__all__ = [
    "InspectedRecord",
    "QuarantinePreview",
    "ReasonOutcome",
    "inspect_records",
    "preview_quarantine",
]
