"""Statistics of samples, computed in parts and merged."""

from trainfeed.samples.statistics._component_limits import components_of_schema
from trainfeed.samples.statistics._field_statistics import FieldStatistics
from trainfeed.samples.statistics._statistics import Statistics

__all__ = [
    "FieldStatistics",
    "Statistics",
    "components_of_schema",
]
