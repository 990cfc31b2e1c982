"""The parameters of a run: Airflow checks the values that it knows, and lets all others through."""

from __future__ import annotations

from collections.abc import Iterable

from trainfeed.errors import ConfigError
from trainfeed.specification import did_you_mean

__all__ = ["require_known"]


def require_known(given: Iterable[str], *known: str) -> None:
    """Refuse a parameter that the form does not have: a misspelt ``dry_run`` would do it all.

    Args:
        given: Names of the parameters of the run.
        *known: Names of those of the form.

    Raises:
        ConfigError: Names the first that is not known, and the nearest that is.
    """
    for name in given:
        if name not in known:
            raise ConfigError(
                f"expected the parameters of the form, got {name!r}; nothing was read or written;"
                f" {did_you_mean(name, known)}"
            )
