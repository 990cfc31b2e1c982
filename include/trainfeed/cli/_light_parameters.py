"""Lets parameters that need no conversion be read without pydantic, by which typer reads all.

Pydantic takes longer to import than a small command to run. A parameter that was left out, text for
a parameter of text, and a default of the right type are values already; all else is typer's.
"""

from __future__ import annotations

from typing import Any, Final

from typer.core import TyperCommand

__all__ = ["LightCommand", "LightParameters"]

_PLAIN: Final = (bool, float, int, str)
_READING: Final = "get_runtime_param"


class LightParameters:
    """The part of a command or group that lets its parameters be read lightly.

    An older typer does not choose a way for each parameter, and reads them as ever.
    """

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters, the option ``--help`` among them."""
        found: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for parameter in found:
            if hasattr(parameter, _READING) and _READING not in vars(parameter):
                vars(parameter)[_READING] = _LightReading(getattr(parameter, _READING)).chosen
        return found


class LightCommand(LightParameters, TyperCommand):
    """A command whose parameters are read lightly."""


class _LightReading:
    """Reads the values of one parameter; asks typer for what it does not know.

    Args:
        whole: Returns typer's own way of reading the parameter.
    """

    def __init__(self, whole: Any) -> None:
        self._whole = whole

    def chosen(self) -> _LightReading:
        """Return itself, where typer asks for the way of the parameter."""
        return self

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return the value of a parameter, from what was typed or from its default."""
        if value is None:
            return () if param.multiple or param.nargs == -1 else None
        if _is_value(value, param.type_descriptor):
            return value
        return self._whole().coerce(value, param=param, ctx=ctx)


def _is_value(value: object, described: Any) -> bool:
    """Whether a value is what typer would make of it."""
    if type(value) is not described.annotation or type(value) not in _PLAIN:
        return False
    # Typer refuses a default outside the limits, too.
    return described.parameter_info.parser is None and not described.is_ranged
