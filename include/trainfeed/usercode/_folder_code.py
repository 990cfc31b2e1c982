"""The code of a data set: its digest, its libraries, and its preprocessing function.

Each data set's folder is loaded as a separate package. Its modules import each other with
``from . import name`` and cannot clash with those of another data set. The digest does not cover
code outside the folder, so imports of such code are refused.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.abc
import importlib.machinery
import importlib.metadata
import importlib.util
import sys
import sysconfig
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, Final

from trainfeed.errors import ConfigError
from trainfeed.paths import walk
from trainfeed.specification import DatasetSpec, read_module
from trainfeed.usercode._user_source import parse_source, refuse_moved_names

__all__ = [
    "code_digest",
    "code_texts",
    "digest_of_texts",
    "imported_names",
    "load_function",
    "running_libraries",
]

_PACKAGE: Final = "trainfeed_datasets"
# Package → files that its digest covers; no other file may be loaded into the package.
_DIGESTED: dict[str, frozenset[str]] = {}
# The libraries that determine bytes on disk, besides the code of the data set.
_LIBRARIES: Final = ("cramjam", "isal", "numpy", "pyarrow", "trainfeed", "xxhash")


def code_digest(spec: DatasetSpec) -> tuple[str, list[str]]:
    """Compute the digest of every ``.py`` of the data set's folder that preprocessing can import.

    The module of ``train.entry`` is left out, because it does not determine the data.

    Returns:
        SHA-256 in hex over the names and contents in path order, and the names.

    Raises:
        ConfigError: A module imports code from outside its folder.
        StorageError: A module cannot be read.
    """
    texts = code_texts(spec)
    for name, content in texts.items():
        _refuse_outside_imports(spec.folder / name, content, spec.folder)
    return digest_of_texts(texts), list(texts)


def code_texts(spec: DatasetSpec) -> dict[str, bytes]:
    """Return the files of the digest: name → content, in path order.

    Raises:
        StorageError: A module cannot be read.
    """
    texts = {}
    for path in _modules(spec):
        texts[path.relative_to(spec.folder).as_posix()] = read_module(path)
    return texts


def imported_names(spec: DatasetSpec) -> frozenset[str]:
    """Return the first names of all that these modules import from outside their folder."""
    texts = code_texts(spec)
    found = (_absolute_imports(spec.folder / name, content) for name, content in texts.items())
    return frozenset().union(*found)


def digest_of_texts(texts: Mapping[str, bytes]) -> str:
    """Return the SHA-256, in hex, over names and contents in their order."""
    digest = hashlib.sha256()
    for name, content in texts.items():
        for part in (name.encode(), content):
            # Lengths first, so that no bytes can move between a name and its content.
            digest.update(len(part).to_bytes(8, "little") + part)
    return digest.hexdigest()


def load_function(spec: DatasetSpec, entry: str) -> Callable[..., Any]:
    """Import ``module:name`` from the data set's folder.

    Raises:
        ConfigError: The module or function is not there, or the import fails.
    """
    module_name, _, name = entry.partition(":")
    module = _load_module(spec, module_name)
    function = getattr(module, name, None)
    if not callable(function):
        raise ConfigError(
            f"expected a function {name!r} in {spec.folder / module_name}.py, found none;"
            f" define it or change {entry!r} in dataset.yaml"
        )
    return function  # type: ignore[no-any-return]


@cache
def running_libraries() -> dict[str, str]:
    """Return name → version of the libraries that determine bytes, and of Python."""
    versions = {name: _version(name) for name in _LIBRARIES}
    return versions | {"python": f"{sys.version_info.major}.{sys.version_info.minor}"}


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        # trainfeed itself is not installed when it runs from a checkout.
        from trainfeed import __version__

        return __version__


def _modules(spec: DatasetSpec) -> list[Path]:
    module = spec.train.module if spec.train else None
    training = spec.folder / f"{module}.py" if module else None
    return sorted(
        path
        # Hidden files cannot be imported; editors and notebooks keep them beside the code.
        for path in walk(spec.folder, hidden=False)
        if path.suffix == ".py" and path != training
    )


def _load_module(spec: DatasetSpec, module_name: str) -> ModuleType:
    path = spec.folder / f"{module_name}.py"
    if not path.is_file():
        raise ConfigError(f"expected a module {path}, found none; dataset.yaml names it")
    try:
        return importlib.import_module(f"{_load_package(spec)}.{module_name}")
    except ConfigError:
        raise
    except BaseException as error:
        raise ConfigError(f"importing {path} failed: {type(error).__name__}: {error}") from error


def _load_package(spec: DatasetSpec) -> str:
    # The digest is part of the package's name. A process that has loaded an earlier state of the
    # folder, or the same data set from another folder, therefore loads the digested code again.
    digest, _ = code_digest(spec)
    place = hashlib.sha256(str(spec.folder).encode()).hexdigest()
    name = f"{_PACKAGE}_{spec.name}_{digest[:16]}_{place[:8]}"
    if name not in sys.modules:
        package = ModuleType(name)
        package.__path__ = [str(spec.folder)]
        _DIGESTED[name] = frozenset(map(str, _modules(spec)))
        sys.modules[name] = package
        if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
            sys.meta_path.insert(0, _Finder())
    return name


class _Loader(importlib.machinery.SourceFileLoader):
    """Compiles the source each time: a cached compilation is only compared by size and second."""

    def get_code(self, fullname: str) -> CodeType:  # noqa: ARG002 - signature of the import system
        return self.source_to_code(self.get_data(self.path), self.path)


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the digested modules of data sets' folders, and stops other finders for them."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,  # noqa: ARG002 - signature of the import system
    ) -> importlib.machinery.ModuleSpec | None:
        if not fullname.startswith(_PACKAGE) or not path:
            return None
        place = Path(path[0]) / fullname.rpartition(".")[2]
        digested = _DIGESTED[fullname.partition(".")[0]]
        for file in (f"{place}.py", f"{place}/__init__.py"):
            if file in digested:
                loader = _Loader(fullname, file)
                return importlib.util.spec_from_file_location(fullname, file, loader=loader)
        raise ModuleNotFoundError(
            f"{place} is not a Python file that the code digest covers (the module of train.entry"
            " is left out of it); put what preprocessing needs into a .py file of its own",
            name=fullname,
        )


def _refuse_outside_imports(path: Path, content: bytes, folder: Path) -> None:
    for name in sorted(_absolute_imports(path, content)):
        if (folder / f"{name}.py").is_file():
            raise ConfigError(
                f"{path} imports its neighbour {name!r}: write 'from . import {name}'"
            )
        if not _is_installed(name):
            raise ConfigError(
                f"{path} imports {name!r}, which is neither in its folder nor an installed package;"
                " its content would be missing from the code digest: install the package, or"
                " move the module into the folder"
            )


@lru_cache(maxsize=256)
def _absolute_imports(path: Path, content: bytes) -> frozenset[str]:
    # Cached, because every stage needs the result, and parsing is the slowest part of its start.
    tree = parse_source(path, content)
    refuse_moved_names(path, tree)
    return frozenset(_imported(tree))


def _imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module.partition(".")[0]


@cache
def _is_installed(name: str) -> bool:
    if name in sys.stdlib_module_names or name in {"trainfeed", "__future__"}:
        return True
    found = importlib.util.find_spec(name)
    if found is None:
        return False
    # A namespace package (without __init__.py) has no origin, and may be in several places.
    places = [found.origin] if found.origin else list(found.submodule_search_locations or ())
    homes = [sysconfig.get_path(key) for key in ("purelib", "platlib")]
    return bool(places) and all(
        any(Path(place).is_relative_to(home) for home in homes) for place in places
    )
