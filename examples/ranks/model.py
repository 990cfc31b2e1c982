"""Logistic regression whose gradient is a sum of integers, so that no order of summing matters."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

__all__ = ["Model"]

# What one sample contributes is rounded to a multiple of this. Sums of floats depend on who adds
# what first, and so on the number of ranks; sums of integers do not. 64 bits hold 2**23 samples.
_UNIT: Final = 2.0**-40
_INDEX_RATE: Final = 0.1
_VALUE_RATE: Final = 0.05

Arrays = dict[str, NDArray[Any]]
Integers = NDArray[np.int64]


class Model:
    """Log-odds = bias + the weights of a sample's indices + slopes · values.

    Args:
        num_buckets: Number of buckets; indices are below it.
        num_values: Values per sample.

    Attributes:
        parameters: Weights, slopes and the bias, shape ``(num_buckets + num_values + 1,)``.
    """

    def __init__(self, num_buckets: int, num_values: int) -> None:
        self._num_buckets = num_buckets
        self.parameters = np.zeros(num_buckets + num_values + 1)
        self._rates = np.full(len(self.parameters), _VALUE_RATE)
        self._rates[:num_buckets] = _INDEX_RATE

    def gradient(self, samples: Arrays) -> Integers:
        """Return the summed gradient of the log-loss, and the summed loss as the last entry.

        Args:
            samples: Field → array of n rows; n may be 0.

        Returns:
            Multiples of the unit, shape ``(len(parameters) + 1,)``; those of several parts of a
            batch add up to that of the batch, bit by bit.
        """
        indices, values = samples["indices"], samples["values"].astype(np.float64)
        labels = samples["label"].astype(np.float64)
        logits = self.parameters[indices].sum(axis=1) + self.parameters[-1]
        # Not a product of matrices: its last bit may depend on how many rows there are.
        logits += (values * self.parameters[self._num_buckets : -1]).sum(axis=1)
        errors = 1 / (1 + np.exp(-logits)) - labels
        total = np.zeros(len(self.parameters) + 1, np.int64)
        np.add.at(total, indices, _rounded(errors)[:, None])
        total[self._num_buckets : -2] = _rounded(values * errors[:, None]).sum(axis=0)
        total[-2] = _rounded(errors).sum()
        total[-1] = _rounded(np.logaddexp(0, logits) - logits * labels).sum()
        return total

    def step(self, total: Integers, num_samples: int, rate: float) -> float:
        """Follow the gradient of a whole batch.

        Args:
            total: The sum of what ``gradient`` gave for its parts.
            num_samples: Samples of the batch.
            rate: Factor on the learning rates.

        Returns:
            The mean loss of the batch before the step, in nats.
        """
        means = total * (_UNIT / num_samples)
        self.parameters -= rate * self._rates * means[:-1]
        return float(means[-1])


def _rounded(numbers: NDArray[np.float64]) -> Integers:
    return np.rint(numbers / _UNIT).astype(np.int64)
