"""Checks the code of users without running it, so that the plan fails, not a later task.

Code is read as text. An import of a name that has moved is refused with the new name. The
preprocessing function must accept the arguments of its mode. The parameters of a function that is
imported, or made by an assignment, are not checked here, and fail when it is called.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final, TypeAlias

from trainfeed.errors import ConfigError
from trainfeed.specification import DatasetSpec, did_you_mean, read_module

__all__ = ["parse_source", "refuse_moved_names", "require_function"]

_PARAMETERS: Final = {"record": ("record", "lookups"), "batch": ("batch", "lookups")}
_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
_PADDLE: Final = "trainfeed.compat.paddle.loading"
# Old name of a module, or of a name in it → new name. The longest match counts.
_MOVED: Final = {
    "trainfeed.build": "trainfeed.preprocessing",
    "trainfeed.build.PlanRef": "trainfeed.pipeline.PlanRef",
    "trainfeed.build.batch": "trainfeed.preprocessing",
    "trainfeed.build.pipeline": "trainfeed.pipeline.local",
    "trainfeed.build.plain": "trainfeed.preprocessing",
    "trainfeed.loader.DistributedBatchSampler": f"{_PADDLE}.DistributedBatchSampler",
    "trainfeed.loader.FeedVariable": f"{_PADDLE}.FeedVariable",
    "trainfeed.loader.GeneratorLoader": f"{_PADDLE}.GeneratorLoader",
    "trainfeed.loader.IndexBatch": f"{_PADDLE}.IndexBatch",
    "trainfeed.spec": "trainfeed.specification",
    "trainfeed.window": "trainfeed.intervals",
}


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
        _require_parameters(functions[name], path, _PARAMETERS[spec.preprocess.input])
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


def refuse_moved_names(path: Path, tree: ast.Module) -> None:
    """Refuse a module that imports a name from its place in an earlier release.

    Args:
        path: Path of the module, for the message.
        tree: The parsed source.

    Raises:
        ConfigError: There is such an import; the message has its line and the new name.
    """
    for line, name in _imported_names(tree):
        if new := _new_name(name):
            raise ConfigError(
                f"{path}:{line} imports {name}, which is {new} now: change the import; nothing was"
                " run. docs/operations/upgrading.md says what this does to published intervals"
            )


def _imported_names(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


def _new_name(name: str) -> str | None:
    """Return the new name, or None; a name in a moved module keeps its last part."""
    parts = name.split(".")
    for end in range(len(parts), 1, -1):
        if new := _MOVED.get(".".join(parts[:end])):
            return ".".join([new, *parts[end:]])
    return None
