"""Pickled samples of old files, behind a switch; no other module unpickles stored samples."""

from __future__ import annotations

import io
import pickle  # noqa: TID251 (old files hold nothing else; off unless asked for)
from collections.abc import Callable
from typing import Any, ClassVar, Final

import numpy as np

from trainfeed.errors import ConfigError, FormatError

_PROTOCOL: Final = 4
_DTYPE: Final = ("numpy", "dtype")
# Kinds of allowed dtypes: bool, numbers, bytes, text and times.
_KINDS: Final = "biufcSUmM"
_NUMPY: Final = ("numpy.core.multiarray", "numpy._core.multiarray")
# Classes and functions of plain values and arrays, also in pickles of Python 2 and of numpy 1.
_ALLOWED: Final = frozenset(
    {
        *((module, name) for module in _NUMPY for name in ("_reconstruct", "scalar")),
        ("numpy.core.numeric", "_frombuffer"),
        ("numpy._core.numeric", "_frombuffer"),
        ("numpy", "ndarray"),
        _DTYPE,
        ("_codecs", "encode"),
        ("collections", "OrderedDict"),
        *(("builtins", name) for name in ("bytearray", "complex", "set", "frozenset")),
        *(("__builtin__", name) for name in ("bytearray", "complex", "set", "frozenset")),
    }
)


class PickleCodec:
    """Encodes and decodes samples as pickles. Use ``ValueCodec`` for new files.

    Args:
        allow_pickle: Must be True: reading a pickle runs code that its writer has chosen.

    Raises:
        ConfigError: ``allow_pickle`` is not true.
    """

    def __init__(self, *, allow_pickle: bool) -> None:
        if allow_pickle is not True:
            raise ConfigError(
                "expected allow_pickle=True: reading a pickle runs code that its writer chose;"
                " use ValueCodec, or say so if the files can be trusted"
            )

    def encode(self, value: object) -> bytes:
        """Return the record of a value of any kind; ``decode`` reads plain ones only."""
        return pickle.dumps(value, protocol=_PROTOCOL)

    def decode(self, record: bytes | bytearray | memoryview) -> Any:
        """Return the value of a record that holds plain values and numpy arrays only.

        Raises:
            FormatError: The record is damaged, or bytes follow the pickle, or it names another
                class.
        """
        data = bytes(record)
        file = io.BytesIO(data)
        try:
            value = _load(file)
        except FormatError:
            raise
        # A damaged pickle may raise any exception.
        except Exception as error:
            raise FormatError(
                f"the record is not a pickle of plain values: {type(error).__name__}: {error}"
            ) from error
        if rest := len(record) - file.tell():
            raise FormatError(f"{rest} bytes follow the pickle")
        return value


def _load(file: io.BytesIO) -> Any:
    try:
        return _FastUnpickler(file, encoding="latin1").load()
    except _NamesDtypeError:
        file.seek(0)
        return _ArrayUnpickler(file, encoding="latin1").load()


class _NamesDtypeError(Exception):
    """The pickle has arrays, so the state of its dtypes must be checked."""


class _FastUnpickler(pickle.Unpickler):
    """Loads pickles without arrays, in C, where the state of a dtype cannot be checked."""

    def find_class(self, module: str, name: str) -> Any:
        _require_allowed(module, name)
        if (module, name) == _DTYPE:
            raise _NamesDtypeError
        return super().find_class(module, name)

    def persistent_load(self, pid: Any) -> Any:
        raise _outside(pid)


class _ArrayUnpickler(pickle._Unpickler):  # noqa: SLF001 (the Python version: BUILD can be checked)
    """Loads pickles with arrays of plain dtypes."""

    dispatch: ClassVar[dict[int, Callable[..., None]]] = {**pickle._Unpickler.dispatch}  # noqa: SLF001

    def find_class(self, module: str, name: str) -> Any:
        _require_allowed(module, name)
        return _plain_dtype if (module, name) == _DTYPE else super().find_class(module, name)

    def persistent_load(self, pid: Any) -> Any:
        raise _outside(pid)

    def load_build(self) -> None:
        stack: list[Any] = self.stack  # type: ignore[attr-defined]
        state, built = stack[-1], stack[-2]
        if isinstance(built, np.dtype):
            _require_plain_state(state)
        super().load_build()  # type: ignore[misc]
        if isinstance(built, np.dtype):
            _require_plain(built)

    dispatch[pickle.BUILD[0]] = load_build


def _plain_dtype(name: object, *_: object) -> np.dtype[Any]:
    if not isinstance(name, str):
        raise _not_plain(f"made from {type(name).__name__}")
    # A copy: the BUILD opcode that follows changes the dtype, and np.dtype(name) may return a
    # shared object.
    found = np.dtype(name, copy=True)
    _require_plain(found)
    return found


def _require_plain_state(state: Any) -> None:
    # The state of a dtype: version, byte order, base, names, fields, sizes, flags.
    if (
        not isinstance(state, tuple)
        or len(state) < 8
        or any(part is not None for part in state[2:5])
    ):
        raise _not_plain("with fields, or an array of another, in its state")


def _require_plain(dtype: np.dtype[Any]) -> None:
    if dtype.kind not in _KINDS:
        raise _not_plain(f"of kind {dtype.kind!r}")
    plain = np.dtype(dtype.str)
    if (dtype.itemsize, dtype.flags) != (plain.itemsize, plain.flags):
        raise _not_plain(f"of {dtype.itemsize} bytes and flags {dtype.flags}")


def _require_allowed(module: str, name: str) -> None:
    if (module, name) not in _ALLOWED:
        raise FormatError(
            f"expected plain values and numpy arrays, the pickle names {module}.{name}"
        )


def _outside(pid: Any) -> FormatError:
    return FormatError(f"expected no persistent reference, got {str(pid)[:60]!r}")


def _not_plain(what: str) -> FormatError:
    return FormatError(f"expected arrays of numbers, text or times, got a dtype {what}")
