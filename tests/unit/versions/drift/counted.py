"""Statistics of columns, and what the room makes of them."""

import json

import numpy as np

from trainfeed.samples import Field, Schema, Statistics
from trainfeed.versions.drift.distances import distributions


def statistics_of(values, field):
    """Statistics of samples: a column, or a list for texts and absent values."""
    statistics = Statistics(Schema((field,)))
    if isinstance(values, list):
        for value in values:
            statistics.update({field.name: value})
    else:
        statistics.update_columns({field.name: values})
    return statistics


def distribution_of(values, dtype="float64", *, optional=False):
    """The distribution of a scalar field, through JSON."""
    field = Field("x", dtype, (), optional=optional)
    if not isinstance(values, list):
        values = np.asarray(values, dtype)
    found = json.loads(json.dumps(statistics_of(values, field).to_json()["x"]))
    return dict(distributions(field, found))["x"]
