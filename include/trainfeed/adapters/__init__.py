"""Batches as tensors of a framework, without a copy where the framework allows it.

Every adapter takes a loader, or any iterable of batches (field → array, or a list of arrays); a
framework is imported when its adapter is called. Memory that a loader lends stays valid as long as
a tensor on it exists. The results of ``torch``, ``paddle`` and ``jax`` have ``set_epoch``,
``state_dict``, ``load_state_dict`` and, if the loader knows its length, ``len``. The state is that
of the loader. Iterables without a state, such as a list of batches, are counted; restoring reads
and drops the batches before the state.

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

    from trainfeed.adapters.passes import Batches
    from trainfeed.samples import Schema

__all__ = ["accelerate", "arrow", "jax", "paddle", "tensorflow", "torch"]


def accelerate(loader: Batches, accelerator: Any, *, check_ranks: bool = True) -> Any:
    """Return batches like ``accelerator.prepare``, but without dividing them among ranks again.

    The batches hold torch tensors on the accelerator's device. ``accelerator.prepare`` accepts the
    result unchanged, and so does ``get_train_dataloader`` of a Hugging Face Trainer. Accelerate
    reads one batch ahead, so ``loader.state_dict()`` is one batch ahead too: take the state from
    ``accelerator.save_state`` with ``DataLoaderConfiguration(use_stateful_dataloader=True)``, or
    resume with ``accelerate.skip_first_batches``.

    Args:
        loader: The loader, made with rank ``accelerator.process_index`` and world size
            ``accelerator.num_processes``.
        accelerator: An ``accelerate.Accelerator``.
        check_ranks: Whether a loader of another rank is refused.

    Raises:
        ConfigError: Accelerate is not installed, or the loader has another rank.
    """
    from trainfeed.adapters._torch import prepared_batches

    return prepared_batches(loader, accelerator, check_ranks=check_ranks)


def arrow(loader: Batches, *, schema: Schema | None = None) -> pa.RecordBatchReader:
    """Return a ``pyarrow.RecordBatchReader`` over one pass of a loader.

    Args:
        loader: The loader, or another iterable of batches.
        schema: Fields of the batches, in the order of the arrays if batches are lists; None takes
            the schema of the loader.

    Raises:
        ConfigError: There is no schema, neither as argument nor in the loader.
    """
    from trainfeed.adapters._arrow import record_batches

    return record_batches(loader, schema)


def jax(loader: Batches, *, device: Any = None, check_ranks: bool = True) -> Any:
    """Return an iterable of batches of ``jax.Array``, each put on ``device``.

    JAX converts 64-bit numbers to 32 bits unless ``jax_enable_x64`` is set; integers out of this
    range are an error.

    Args:
        loader: The loader, or another iterable of batches.
        device: A device or sharding; None is JAX's default. With a sharding over the devices of
            several processes, every process contributes its part, and the arrays are those of all
            ranks.
        check_ranks: Whether a loader of another rank than ``jax.process_index()`` is refused.

    Raises:
        ConfigError: JAX is not installed. While iterating: the loader has another rank, or its
            last batch may have different lengths on the processes that share an array.
        SampleShapeError: While iterating: an integer does not fit into 32 bits.
    """
    from trainfeed.adapters._jax import JaxBatches

    return JaxBatches(loader, device, check_ranks=check_ranks)


def paddle(loader: Batches, *, check_ranks: bool = True) -> Any:
    """Return an iterable of batches of ``paddle.Tensor`` on the CPU.

    Args:
        loader: The loader, or another iterable of batches.
        check_ranks: Whether a loader of another rank than that of ``paddle.distributed`` is
            refused.

    Raises:
        ConfigError: Paddle is not installed. While iterating: the loader has another rank.
    """
    from trainfeed.adapters._paddle import PaddleBatches

    return PaddleBatches(loader, check_ranks=check_ranks)


def tensorflow(loader: Batches, *, schema: Schema | None = None) -> Any:
    """Return a ``tf.data.Dataset`` whose elements are batches.

    The result has ``set_epoch``, ``state_dict`` and ``load_state_dict`` besides TensorFlow's
    methods; the results of ``map``, ``prefetch`` and similar methods do not have them. A
    distribution strategy of TensorFlow does not divide the batches of a loader with several ranks
    again.

    Args:
        loader: The loader, or another iterable of batches.
        schema: Fields of the batches, in the order of the arrays if batches are lists; None takes
            the schema of the loader.

    Raises:
        ConfigError: There is no schema, neither as argument nor in the loader.
        ConfigError: TensorFlow is not installed.
    """
    from trainfeed.adapters._tensorflow import dataset

    return dataset(loader, schema)


def torch(loader: Batches, *, check_ranks: bool = True) -> Any:
    """Return a ``torch.utils.data.IterableDataset`` that yields batches of tensors.

    Iterate over it, or give it to torch's DataLoader or torchdata's StatefulDataLoader with
    ``batch_size=None`` and without workers, or to a trainer of Lightning.

    Args:
        loader: The loader, or another iterable of batches.
        check_ranks: Whether a loader of another rank than that of ``torch.distributed`` is refused.

    Raises:
        ConfigError: Torch is not installed. While iterating: torch's DataLoader makes batches of
            the batches, or has workers; accelerate divides the batches of one rank again; or the
            loader has another rank.
    """
    from trainfeed.adapters._torch import TorchBatches

    return TorchBatches(loader, check_ranks=check_ranks)
