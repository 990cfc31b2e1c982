"""A published data set: identity, order, ledger, manifest, version. The two halves meet here."""

from trainfeed.dataset.layout import DatasetFolder
from trainfeed.dataset.ledger import Leaf, Ledger, SourceLedger, ValidLeaf
from trainfeed.dataset.manifest import Manifest, content_digest
from trainfeed.dataset.trainings import TrainingMarks, Untrained
from trainfeed.dataset.version import Version

__all__ = [
    "DatasetFolder",
    "Leaf",
    "Ledger",
    "Manifest",
    "SourceLedger",
    "TrainingMarks",
    "Untrained",
    "ValidLeaf",
    "Version",
    "content_digest",
]
