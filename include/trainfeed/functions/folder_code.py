"""The code of a data set: checked, digested, loaded; and the documents of its folder."""

from __future__ import annotations

import ast
import hashlib
import importlib.abc
import importlib.machinery
import importlib.metadata
import importlib.util
import linecache
import sys
import sysconfig
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from importlib.machinery import ModuleSpec
from pathlib import Path, PurePosixPath
from types import CodeType, ModuleType
from typing import Any, Final, NamedTuple, TypeAlias

from trainfeed.errors import CodeChangedError, ConfigError, NotFoundError
from trainfeed.files import read_plain, walk
from trainfeed.specification import DatasetSpec, did_you_mean, read_module

# --- Checks the code of users without running it, so that the plan fails, not a later task

_PARAMETERS: Final = {"record": ("record", "lookups"), "batch": ("batch", "lookups")}
_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef


def require_function(spec: DatasetSpec) -> None:
    """Check that the preprocessing function exists and accepts its arguments.

    Raises:
        ConfigError: The module has no such function, or one with other parameters; the message
            has the nearest function, or the line.
        StorageError: The module cannot be read.
    """
    path = spec.folder / f"{spec.preprocess.module}.py"
    body = parse_source(path, read_module(path)).body
    name = spec.preprocess.function_name
    functions = {node.name: node for node in body if isinstance(node, _Function)}
    if name in functions:
        more = ("parameters",) if spec.preprocess.parameters else ()
        _require_parameters(functions[name], path, (*_PARAMETERS[spec.preprocess.input], *more))
    elif name not in set(_other_names(body)) and "*" not in set(_other_names(body)):
        hint = did_you_mean(name, functions) if functions else "define it"
        raise ConfigError(
            f"expected a function {name!r} in {path}, which dataset.yaml names, found none; {hint}"
        )


def _other_names(body: list[ast.stmt]) -> Iterator[str]:
    """Yield all other names at the top of a module, also those within ``if`` and ``try``."""
    for statement in body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Import | ast.ImportFrom):
                yield from (alias.asname or alias.name for alias in node.names)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                yield node.id
            elif isinstance(node, _Function | ast.ClassDef) and node is not statement:
                yield node.name
        if isinstance(statement, ast.ClassDef):
            yield statement.name


def _require_parameters(function: _Function, path: Path, wanted: tuple[str, ...]) -> None:
    parameters = function.args
    positional = [*parameters.posonlyargs, *parameters.args]
    least = len(positional) - len(parameters.defaults)
    most = len(wanted) if parameters.vararg else len(positional)
    is_callable = least <= len(wanted) <= most and None not in parameters.kw_defaults
    # A decorator may change the parameters, so decorated functions are not checked.
    if (is_callable and isinstance(function, ast.FunctionDef)) or function.decorator_list:
        return
    kind = "async def" if isinstance(function, ast.AsyncFunctionDef) else "def"
    raise ConfigError(
        f"expected def {function.name}({', '.join(wanted)}), got {kind} {function.name}"
        f"({ast.unparse(parameters)}) at {path}:{function.lineno}; change it"
    )


def parse_source(path: Path, source: bytes) -> ast.Module:
    """Parse a module.

    Args:
        path: Path of the module, for messages.
        source: Content of the module.

    Raises:
        ConfigError: The content is no Python; the message has the line.
    """
    try:
        return ast.parse(source, filename=str(path))
    except SyntaxError as error:
        line, what = error.lineno or 1, error.msg
    except ValueError as error:
        # Python before 3.11.4 raises this for a NUL byte.
        line, what = 1, str(error)
    raise ConfigError(f"{path}:{line}: expected Python, got {what!r}; correct the module")


# --- The documents of a data set: files of its folder that every version gets, as they are

_MAX_BYTES: Final = 16 << 20


def document_digests(spec: DatasetSpec) -> dict[str, str]:
    """Return name → SHA-256 of every document; the name is the last part of its path.

    Raises:
        ConfigError: A file is missing.
        FormatError: A path is that of something else than a plain file, or the file is larger than
            16 MiB.
        StorageError: A file cannot be read.
    """
    paths = {PurePosixPath(path).name: spec.folder / path for path in spec.documents}
    return {
        name: hashlib.sha256(_read(spec, name, paths[name])).hexdigest() for name in sorted(paths)
    }


def read_document(spec: DatasetSpec, name: str, planned: str) -> bytes:
    """Return a document.

    Args:
        spec: The data set.
        name: Last part of its path.
        planned: Digest of the plan.

    Raises:
        CodeChangedError: The file is not the one of the plan.
        ConfigError: The file is missing.
        FormatError: The path is that of something else than a plain file.
        StorageError: The file cannot be read.
    """
    paths = {PurePosixPath(path).name: spec.folder / path for path in spec.documents}
    data = _read(spec, name, paths[name]) if name in paths else b""
    if name not in paths or hashlib.sha256(data).hexdigest() != planned:
        raise CodeChangedError(
            f"document {name!r} of data set {spec.name!r} changed since the plan was made; nothing"
            " was published; run the build again"
        )
    return data


def _read(spec: DatasetSpec, name: str, path: Path) -> bytes:
    try:
        return read_plain(path, follow=True, max_bytes=_MAX_BYTES)
    except NotFoundError as error:
        raise ConfigError(
            f"document {name!r} of data set {spec.name!r} is missing: {path}; nothing was"
            " published; put the file there, or take it out of 'documents' in dataset.yaml"
        ) from error


# --- The code of a data set: its digest, its libraries, and its preprocessing function

_PACKAGE: Final = "trainfeed_datasets"
# The libraries that determine bytes on disk, besides the code of the data set.
_LIBRARIES: Final = ("cramjam", "isal", "numpy", "pyarrow", "trainfeed", "xxhash")


class _Package(NamedTuple):
    """The only modules that may be loaded into a package.

    Attributes:
        folder: Folder of the data set, for paths in tracebacks and messages.
        texts: File → content.
    """

    folder: Path
    texts: Mapping[str, bytes]


# Name of a package → its modules.
_PACKAGES: Final[dict[str, _Package]] = {}


def code_texts(spec: DatasetSpec) -> dict[str, bytes]:
    """Read every ``.py`` of the data set's folder that preprocessing can import.

    The module of ``train.entry`` is left out, because it does not determine the data.

    Returns:
        Name → content, in path order.

    Raises:
        ConfigError: A module imports code from outside its folder.
        StorageError: A module cannot be read.
    """
    texts = _texts(spec)
    for name, content in texts.items():
        _refuse_outside_imports(spec.folder / name, content, spec.folder)
    return texts


def _texts(spec: DatasetSpec) -> dict[str, bytes]:
    return {path.relative_to(spec.folder).as_posix(): read_module(path) for path in _modules(spec)}


def imported_names(spec: DatasetSpec) -> frozenset[str]:
    """Return the first names of all that these modules import from outside their folder."""
    texts = _texts(spec)
    found = (_absolute_imports(spec.folder / name, content) for name, content in texts.items())
    return frozenset().union(*found)


def digest_of_texts(texts: Mapping[str, bytes]) -> str:
    """Return the SHA-256, in hex, over names and contents in their order."""
    digest = hashlib.sha256()
    for name, content in texts.items():
        # Names of files need not be UTF-8.
        for part in (name.encode(errors="surrogateescape"), content):
            # Lengths first, so that no bytes can move between a name and its content.
            digest.update(len(part).to_bytes(8, "little") + part)
    return digest.hexdigest()


def load_function(spec: DatasetSpec, entry: str, texts: Mapping[str, bytes]) -> Callable[..., Any]:
    """Import ``module:name`` of a data set.

    Args:
        spec: The data set.
        entry: ``module:name``.
        texts: The code, as ``code_texts`` has read it.

    Raises:
        ConfigError: The module or function is not there, or the import fails.
    """
    module_name, _, name = entry.partition(":")
    module = _load_module(spec, module_name, texts)
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


def _load_module(spec: DatasetSpec, module_name: str, texts: Mapping[str, bytes]) -> ModuleType:
    path = spec.folder / f"{module_name}.py"
    if f"{module_name}.py" not in texts:
        raise ConfigError(
            f"expected a module {path} beside that of train.entry, found none; dataset.yaml names"
            " it"
        )
    # The digest is part of the package's name. A process that has loaded an earlier state of the
    # folder, or the same data set from another folder, therefore loads the digested code again.
    place = hashlib.sha256(str(spec.folder).encode()).hexdigest()
    package = f"{_PACKAGE}_{spec.name}_{digest_of_texts(texts)[:16]}_{place[:8]}"
    load_package(package, spec.folder, texts)
    try:
        return importlib.import_module(f"{package}.{module_name}")
    except ConfigError:
        raise
    except BaseException as error:
        raise ConfigError(f"importing {path} failed: {type(error).__name__}: {error}") from error


def load_package(name: str, folder: Path, texts: Mapping[str, bytes]) -> None:
    """Make a package whose modules run from these texts; no file of the folder is read for them.

    Args:
        name: Name of the package. Modules of other texts that have the name are forgotten.
        folder: Folder of the data set.
        texts: Name of a file → content.
    """
    loaded = _Package(folder, texts)
    if name in sys.modules and _PACKAGES.get(name) == loaded:
        return
    for module in [each for each in sys.modules if each.startswith(f"{name}.")]:
        del sys.modules[module]
    package = ModuleType(name)
    package.__path__ = [str(folder)]
    _PACKAGES[name] = loaded
    sys.modules[name] = package
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


class _Loader(importlib.machinery.SourceFileLoader):
    """Runs a text that was read and digested, whatever its file has meanwhile."""

    def __init__(self, fullname: str, path: str, text: bytes) -> None:
        super().__init__(fullname, path)
        self._text = text

    def get_data(self, path: str) -> bytes:
        return self._text if path == self.path else super().get_data(path)

    def get_code(self, fullname: str) -> CodeType:  # noqa: ARG002 - signature of the import system
        code = self.source_to_code(self._text, self.path)
        lines = importlib.util.decode_source(self._text).splitlines(keepends=True)
        # Lines without a time of change: tracebacks show these, and not those of a changed file.
        linecache.cache[self.path] = (len(self._text), None, lines, self.path)
        return code


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the digested modules of data sets' folders, and stops other finders for them."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,  # noqa: ARG002 - signature of the import system
    ) -> ModuleSpec | None:
        top, _, inner = fullname.partition(".")
        package = _PACKAGES.get(top)
        if package is None or not path:
            return None
        name = inner.replace(".", "/")
        place = str(package.folder / name)
        for end in (".py", "/__init__.py"):
            if (text := package.texts.get(name + end)) is not None:
                loader = _Loader(fullname, place + end, text)
                return importlib.util.spec_from_file_location(fullname, place + end, loader=loader)
        if any(file.startswith(f"{name}/") for file in package.texts):
            folder = ModuleSpec(fullname, None, is_package=True)
            folder.submodule_search_locations = [place]
            return folder
        # Without its name in the error: of such errors Python drops those of 'from . import name'.
        raise ModuleNotFoundError(
            f"{place} is not a Python file that the code digest covers (a file that came after the"
            " code was read is left out of it, and for preprocessing the module of train.entry);"
            " put what is imported into a .py file of its own, then start again"
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
    return frozenset(_imported(parse_source(path, content)))


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
