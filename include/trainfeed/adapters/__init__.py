"""Batches as tensors of a framework, without a copy where the framework allows it.

Every adapter takes a loader, or whatever else yields batches (field → array, or a list of arrays)
again and again; a framework is imported when its adapter is called. Memory that a loader lends
stays valid as long as a tensor made of it lives. What ``torch``, ``paddle`` and ``jax`` return has
``set_epoch``, ``state_dict``, ``load_state_dict`` and, where the loader knows it, ``len``. A state
is the loader's own; a loader over a generator, or a list of batches, has none: there batches are
counted, and those before the state are read again and dropped.

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

__all__ = ["accelerate", "arrow", "jax", "paddle", "tensorflow", "torch"]


def accelerate(loader: Batches, accelerator: Any, *, check_ranks: bool = True) -> Any:
    """Return batches as ``accelerator.prepare`` would, and leave the sharing out to the loader.

    They are torch tensors on the accelerator's device; ``accelerator.prepare`` takes them as they
    are, and so does ``get_train_dataloader`` of a Hugging Face Trainer. Accelerate is one batch
    ahead of what it hands over, and so is ``loader.state_dict()``: take the state from
    ``accelerator.save_state`` with ``DataLoaderConfiguration(use_stateful_dataloader=True)``, or
    go on with ``accelerate.skip_first_batches``.

    Args:
        loader: What yields the batches; one of rank ``accelerator.process_index`` of
            ``accelerator.num_processes``.
        accelerator: An ``accelerate.Accelerator``.
        check_ranks: Whether to refuse a loader of another rank.

    Raises:
        ConfigError: Accelerate is not installed, or the loader is one of another rank.
    """
    from trainfeed.adapters._accelerate import prepared_batches

    return prepared_batches(loader, accelerator, check_ranks=check_ranks)


def arrow(loader: Batches, *, schema: Schema | None = None) -> pa.RecordBatchReader:
    """Return a ``pyarrow.RecordBatchReader`` over one pass of a loader.

    Args:
        loader: What yields the batches.
        schema: Their fields, in the order of the arrays if batches are lists; None to ask the
            loader.

    Raises:
        ConfigError: Neither says what the fields are.
    """
    from trainfeed.adapters._arrow import record_batches

    return record_batches(loader, schema)


def jax(loader: Batches, *, device: Any = None, check_ranks: bool = True) -> Any:
    """Return an iterable of batches of ``jax.Array``, each put on ``device``.

    JAX makes 32-bit numbers of 64-bit ones unless ``jax_enable_x64`` is set; integers that do not
    survive that are an error.

    Args:
        loader: What yields the batches.
        device: A device or sharding; None for JAX's default. Of a sharding over the devices of
            several processes, every process gives its part: the arrays are those of all ranks.
        check_ranks: Whether to refuse a loader of another rank than ``jax.process_index()``.

    Raises:
        ConfigError: JAX is not installed; while iterating: the loader is one of another rank, or
            its last batch may be shorter on some processes, in arrays of all of them.
        SampleShapeError: While iterating: an integer does not fit into 32 bits.
    """
    from trainfeed.adapters._jax import JaxBatches

    return JaxBatches(loader, device, check_ranks=check_ranks)


def paddle(loader: Batches, *, check_ranks: bool = True) -> Any:
    """Return an iterable of batches of ``paddle.Tensor`` on the CPU.

    Args:
        loader: What yields the batches.
        check_ranks: Whether to refuse a loader of another rank than that of
            ``paddle.distributed``.

    Raises:
        ConfigError: Paddle is not installed; while iterating: the loader is one of another rank.
    """
    from trainfeed.adapters._paddle import PaddleBatches

    return PaddleBatches(loader, check_ranks=check_ranks)


def tensorflow(loader: Batches, *, schema: Schema | None = None) -> Any:
    """Return a ``tf.data.Dataset`` whose elements are batches.

    It has ``set_epoch``, ``state_dict`` and ``load_state_dict`` beside the methods of TensorFlow;
    what ``map``, ``prefetch`` and the like return has not. A strategy of TensorFlow leaves batches
    of a loader that is one of several ranks where they are.

    Args:
        loader: What yields the batches.
        schema: Their fields, in the order of the arrays if batches are lists; None to ask the
            loader.

    Raises:
        ConfigError: Neither says what the fields are.
        ConfigError: TensorFlow is not installed.
    """
    from trainfeed.adapters._tensorflow import dataset

    return dataset(loader, schema)


def torch(loader: Batches, *, check_ranks: bool = True) -> Any:
    """Return a ``torch.utils.data.IterableDataset`` that yields batches of tensors.

    Iterate over it, or give it to torch's DataLoader or torchdata's StatefulDataLoader with
    ``batch_size=None`` and without workers, or to a trainer of Lightning.

    Args:
        loader: What yields the batches.
        check_ranks: Whether to refuse a loader of another rank than that of
            ``torch.distributed``.

    Raises:
        ConfigError: Torch is not installed; while iterating: torch's DataLoader makes batches of
            the batches or has workers, accelerate shares out what is a share already, or the
            loader is one of another rank.
    """
    from trainfeed.adapters._torch import TorchBatches

    return TorchBatches(loader, check_ranks=check_ranks)
