"""Writes samples as arrays of NumPy: ``.npy`` for a single field, ``.npz`` for several."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator, Mapping
from typing import Any, BinaryIO, Final, cast

import numpy as np

from trainfeed.errors import ConfigError
from trainfeed.samples import Field, Schema

__all__ = ["write_npy", "write_npz"]

# The earliest time of ZIP, the same in every file, so that equal samples give equal files.
_TIME: Final = (1980, 1, 1, 0, 0, 0)

ColumnsOf = Callable[[], Iterator[Mapping[str, Any]]]


def write_npy(file: BinaryIO, samples: ColumnsOf, schema: Schema, num_samples: int) -> None:
    """Write samples of one field as an array of shape ``(num_samples, *field.shape)``.

    Args:
        file: The new file.
        samples: Called once; yields the samples in the form of ``TypedCodec.decode``.
        schema: A schema of one required field of fixed size.
        num_samples: Number of samples.

    Raises:
        ConfigError: The schema is not of this kind.
    """
    fields = _fixed(schema)
    if len(fields) > 1:
        raise ConfigError(f"expected one field for .npy, got {list(schema.names)}; write .npz")
    _write_array(file, samples(), fields[0], num_samples)


def write_npz(file: BinaryIO, samples: ColumnsOf, schema: Schema, num_samples: int) -> None:
    """Write samples as an archive with an array per field, without compression.

    Args:
        file: The new file.
        samples: Called once per field; yields the samples in the form of ``TypedCodec.decode``.
        schema: A schema of required fields of fixed size.
        num_samples: Number of samples.

    Raises:
        ConfigError: The schema is not of this kind.
    """
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for field in _fixed(schema):
            info = zipfile.ZipInfo(f"{field.name}.npy", _TIME)
            with archive.open(info, "w", force_zip64=True) as member:
                _write_array(cast("BinaryIO", member), samples(), field, num_samples)


def _fixed(schema: Schema) -> list[Field]:
    wrong = [field.name for field in schema if not field.is_fixed or field.optional]
    if wrong:
        raise ConfigError(
            f"expected fields of fixed size that no sample lacks for arrays of NumPy, got {wrong}"
        )
    return list(schema)


def _write_array(
    file: BinaryIO, samples: Iterator[Mapping[str, Any]], field: Field, num_samples: int
) -> None:
    dtype = field.values_dtype
    header = {
        "descr": np.lib.format.dtype_to_descr(dtype),
        "fortran_order": False,
        "shape": (num_samples, *field.item_shape),
    }
    np.lib.format.write_array_header_1_0(file, header)
    count = 0
    for sample in samples:
        file.write(np.ascontiguousarray(sample[field.name], dtype).tobytes())
        count += 1
    if count != num_samples:
        raise ConfigError(f"expected {num_samples} samples, got {count}: the source has changed")
