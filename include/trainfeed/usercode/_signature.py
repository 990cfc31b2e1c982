"""Looks at the preprocessing function without running it, so that a plan fails and no later task.

What a module does at import stays out of the plan. So the source is read as text: a function that
is defined elsewhere, or made by an assignment, is believed here and found out when it is called.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final, TypeAlias

from trainfeed.errors import ConfigError
from trainfeed.specification import DatasetSpec, did_you_mean, read_module
from trainfeed.usercode._python_source import parse_source

__all__ = ["require_function"]

_PARAMETERS: Final = {"record": ("record", "lookups"), "batch": ("batch", "lookups")}

_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef


def require_function(spec: DatasetSpec) -> None:
    """Look for the preprocessing function and at its parameters.

    Raises:
        ConfigError: The module has no such function, or one that cannot be called as stages do;
            names the nearest function, or the line.
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
    """Yield what else gets a name at the top of a module, also within ``if`` and ``try``."""
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
    # A decorator may change the parameters.
    if (is_callable and isinstance(function, ast.FunctionDef)) or function.decorator_list:
        return
    kind = "async def" if isinstance(function, ast.AsyncFunctionDef) else "def"
    raise ConfigError(
        f"expected def {function.name}({', '.join(wanted)}), got {kind} {function.name}"
        f"({ast.unparse(parameters)}) at {path}:{function.lineno}; change it"
    )
