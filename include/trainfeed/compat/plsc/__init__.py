"""PLSC's ``Entry``: large-scale classification by a script of setters and ``train()``.

Existing scripts change their imports: ``from plsc import Entry`` becomes ``from
trainfeed.compat.plsc import Entry``. Settings and readers need no framework; ``train()``,
``test()`` and ``predict()`` import PaddlePaddle.
"""

from trainfeed.compat.plsc.entry import Entry
from trainfeed.compat.plsc.settings import (
    EntrySettings,
    LossScale,
    LossType,
    MixedPrecision,
    Report,
)

__all__ = [
    "Entry",
    "EntrySettings",
    "LossScale",
    "LossType",
    "MixedPrecision",
    "Report",
]
