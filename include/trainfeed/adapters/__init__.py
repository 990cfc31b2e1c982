"""Batches as tensors of a framework, without a copy where the framework allows it.

Every adapter takes a loader, or whatever else yields batches (field → array), again and again; a
framework is imported when its adapter is called. Memory that a loader lends stays valid as long as
a tensor made of it lives.

========================  ==================  ====================================  ===============
field                     in a batch          tensors                               Arrow
========================  ==================  ====================================  ===============
fixed shape               array ``(n, *S)``   a tensor, same dtype                  fixed-size list
the same, optional        masked array        the same, and ``<name>_present``      null
bytes, str                array of objects    a list (TensorFlow: a string tensor)  binary, string
varying first dimension   array of objects    a list (TensorFlow: a ragged tensor)  list
which rows count          ``batch.valid``     ``valid``, with ``tail="pad"``        ``valid``
========================  ==================  ====================================  ===============
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

    from trainfeed.adapters._batches import Batches
    from trainfeed.samples import Schema

__all__ = ["arrow", "jax", "paddle", "tensorflow", "torch"]


def arrow(loader: Batches, *, schema: Schema | None = None) -> pa.RecordBatchReader:
    """Return a ``pyarrow.RecordBatchReader`` over one pass of a loader.

    Args:
        loader: What yields the batches.
        schema: Their fields; None to ask the loader.

    Raises:
        ConfigError: Neither says what the fields are.
    """
    from trainfeed.adapters._arrow import record_batches

    return record_batches(loader, schema)


def jax(loader: Batches, *, device: Any = None) -> Any:
    """Return an iterable of batches of ``jax.Array``, each put on ``device``.

    JAX makes 32-bit numbers of 64-bit ones unless ``jax_enable_x64`` is set; integers that do not
    survive that are an error.

    Args:
        loader: What yields the batches.
        device: A device or sharding; None for JAX's default.

    Raises:
        ConfigError: JAX is not installed.
        SampleShapeError: While iterating: an integer does not fit into 32 bits.
    """
    from trainfeed.adapters._jax import JaxBatches

    return JaxBatches(loader, device)


def paddle(loader: Batches) -> Any:
    """Return an iterable of batches of ``paddle.Tensor`` on the CPU.

    Raises:
        ConfigError: Paddle is not installed.
    """
    from trainfeed.adapters._paddle import PaddleBatches

    return PaddleBatches(loader)


def tensorflow(loader: Batches, *, schema: Schema | None = None) -> Any:
    """Return a ``tf.data.Dataset`` whose elements are batches.

    Args:
        loader: What yields the batches.
        schema: Their fields; None to ask the loader.

    Raises:
        ConfigError: Neither says what the fields are.
        ConfigError: TensorFlow is not installed.
    """
    from trainfeed.adapters._tensorflow import dataset

    return dataset(loader, schema)


def torch(loader: Batches) -> Any:
    """Return a ``torch.utils.data.IterableDataset`` that yields batches of tensors.

    Give it to torch's DataLoader with ``batch_size=None`` and without workers, or iterate over it.
    Its ``state_dict`` and ``load_state_dict`` are those of the loader.

    Raises:
        ConfigError: Torch is not installed.
    """
    from trainfeed.adapters._torch import TorchBatches

    return TorchBatches(loader)
