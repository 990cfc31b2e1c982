"""A conversion in tasks: plan, scatter, gather and publish, in different processes."""

from trainfeed.conversion.steps._conversion_plan import ConversionRequest
from trainfeed.conversion.steps._roots import Roots
from trainfeed.conversion.steps._stages import (
    gather_shards,
    plan_conversion,
    publish_conversion,
    scatter_files,
)

__all__ = [
    "ConversionRequest",
    "Roots",
    "gather_shards",
    "plan_conversion",
    "publish_conversion",
    "scatter_files",
]
