"""Two days of the small data set of clicks at any root, and its batches with their states."""

import numpy as np

from trainfeed.loader import DataLoader
from trainfeed.readers import open_dataset

DAYS = ("2024-03-01", "2024-03-02")


def opened(root, **options):
    options = {"interval": "/".join(DAYS), "split": "train"} | options
    return open_dataset("clicks", root=root, **options)


def batches(dataset, state=None, **options):
    """All batches of an epoch, or those behind a state, each with the state behind it."""
    found = []
    with DataLoader(dataset, 7, shuffle=True, **options) as loader:
        if state is not None:
            loader.load_state_dict(state)
        found.extend(
            ({k: np.array(v) for k, v in batch.items()}, loader.state_dict()) for batch in loader
        )
    return found
