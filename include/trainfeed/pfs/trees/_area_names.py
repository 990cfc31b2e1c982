"""Names in an area of shared storage: which ones calls refuse, and how messages show them.

Programs that work on a mount make names that these commands refuse, such as one with the end of a
line. They are listed and counted, and every other name in their folder stays usable.
"""

from __future__ import annotations

from trainfeed.datacenters import PfsPath
from trainfeed.errors import ConfigError
from trainfeed.pfs.trees._tree_values import Parts
from trainfeed.printable_text import printable

__all__ = ["address_in_area", "require_area_names", "shown_in_area"]


def shown_in_area(area: PfsPath, parts: Parts, *, is_current: bool) -> str:
    """Return a place as people type it; names that are refused are shown with escapes.

    Args:
        area: The area, without parts.
        parts: Names below the area, of any characters.
        is_current: Whether the area is in the data centre of ``pfs://`` paths.
    """
    try:
        return area.joined(*parts).shown(is_current=is_current)
    except ConfigError:
        return printable("/".join((area.shown(is_current=is_current), *parts)))


def address_in_area(area: PfsPath, parts: Parts) -> str:
    """Return the complete path of a place, which is the same on a mount and behind a server.

    Args:
        area: The area, without parts.
        parts: Names below the area, of any characters.
    """
    return "/".join((str(area), *parts))


def require_area_names(area: PfsPath, parts: Parts, *, is_current: bool) -> None:
    """Refuse a place with a name that shared storage does not allow; see ``shown_in_area``.

    Raises:
        ConfigError: A name is not allowed.
    """
    try:
        area.joined(*parts)
    except ConfigError as error:
        shown = shown_in_area(area, parts, is_current=is_current)
        raise ConfigError(f"{shown}: {error}") from error
