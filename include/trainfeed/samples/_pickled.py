"""Pickled samples of old files, behind a switch: nothing else reads a stored sample as a pickle.

Reading a pickle runs what it says. The unpickler here finds nothing but the classes of plain values
and numpy arrays, which leaves no function to run; still, a pickle made to harm may take all memory,
or find a fault in numpy itself. Read only what you would also run.
"""

from __future__ import annotations

import io
import pickle  # noqa: TID251 (old files hold nothing else; off unless asked for)
from typing import Any, Final

from trainfeed.errors import ConfigError, FormatError

__all__ = ["PickleCodec"]

_PROTOCOL: Final = 4
_NUMPY: Final = ("numpy.core.multiarray", "numpy._core.multiarray")
# What plain values and arrays are made of, also in pickles of Python 2 and of numpy before 2.
_ALLOWED: Final = frozenset(
    {
        *((module, name) for module in _NUMPY for name in ("_reconstruct", "scalar")),
        ("numpy.core.numeric", "_frombuffer"),
        ("numpy._core.numeric", "_frombuffer"),
        ("numpy", "ndarray"),
        ("numpy", "dtype"),
        ("_codecs", "encode"),
        ("collections", "OrderedDict"),
        *(("builtins", name) for name in ("bytearray", "complex", "set", "frozenset")),
        *(("__builtin__", name) for name in ("bytearray", "complex", "set", "frozenset")),
    }
)


class PickleCodec:
    """Encodes and decodes samples as pickles. Use ``ValueCodec`` for everything new.

    Args:
        allow_pickle: Must be true: whoever reads a pickle runs what its writer has put there.

    Raises:
        ConfigError: ``allow_pickle`` is not true.
    """

    def __init__(self, *, allow_pickle: bool) -> None:
        if allow_pickle is not True:
            raise ConfigError(
                "expected allow_pickle=True: reading a pickle runs what its writer has put there;"
                " use ValueCodec, or say so if the files can be trusted"
            )

    def encode(self, value: object) -> bytes:
        """Return the record of a value of any kind; ``decode`` reads plain ones only."""
        return pickle.dumps(value, protocol=_PROTOCOL)

    def decode(self, record: bytes | bytearray | memoryview) -> Any:
        """Return the value of a record that holds plain values and numpy arrays only.

        Raises:
            FormatError: It is damaged, followed by more bytes, or names anything else.
        """
        file = io.BytesIO(bytes(record))
        try:
            value = _Unpickler(file, encoding="latin1").load()
        except FormatError:
            raise
        # Damaged pickles raise whatever the opcodes stumble over.
        except Exception as error:
            raise FormatError(
                f"record is no pickle of plain values: {type(error).__name__}: {error}"
            ) from error
        if rest := len(record) - file.tell():
            raise FormatError(f"{rest} bytes follow the pickle")
        return value


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _ALLOWED:
            raise FormatError(
                f"expected plain values and numpy arrays, the pickle names {module}.{name}"
            )
        return super().find_class(module, name)

    def persistent_load(self, pid: Any) -> Any:
        raise FormatError(f"expected no reference to something outside, got {str(pid)[:60]!r}")
