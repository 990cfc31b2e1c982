"""The entries of ``~/.trainfeed/config``: every key and every value is checked, none is ignored."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

from trainfeed.datacenters._datacenter import Datacenter, Datacenters
from trainfeed.datacenters._endpoint import require_endpoint
from trainfeed.datacenters._pfs_path import require_datacenter_name, require_user
from trainfeed.errors import ConfigError

__all__ = ["EXAMPLE", "datacenters_of"]

EXAMPLE: Final = "datacenters: [{name: dc1, username: alice, mount: /mnt/dc1}]"
_CURRENT: Final = "current-datacenter"
_REQUIRED: Final = ("name", "username")
_FOLDERS: Final = ("mount", "home", "public")
_LOCAL: Final = "local"
_FILES: Final = ("token_file", "ca_file", "usercert", "userkey")


def datacenters_of(content: Any, source: Path) -> Datacenters:
    """Return the data centres of a file's content.

    Args:
        content: The parsed YAML, of any type.
        source: The file, for messages that follow.

    Raises:
        ConfigError: An entry is missing, unknown or wrong.
    """
    _require_keys("the file", content, ("datacenters", _CURRENT))
    entries = content.get("datacenters")
    if not isinstance(entries, list) or not entries:
        raise ConfigError(f"expected a list of data centres, such as: {EXAMPLE}")
    centres = [_datacenter(f"data centre {number}", each) for number, each in enumerate(entries, 1)]
    by_name = {each.name: each for each in centres}
    if len(by_name) != len(centres):
        raise ConfigError("expected a different name for each data centre, got one name twice")
    return Datacenters(_current(content.get(_CURRENT), by_name), by_name, source)


def _current(name: Any, by_name: Mapping[str, Datacenter]) -> Datacenter:
    if name is None and len(by_name) == 1:
        return next(iter(by_name.values()))
    if not isinstance(name, str) or name not in by_name:
        names = ", ".join(sorted(by_name))
        raise ConfigError(f"expected {_CURRENT} to be one of {names}, got {name!r}")
    return by_name[name]


def _datacenter(what: str, entry: Any) -> Datacenter:
    _require_keys(what, entry, (*_REQUIRED, "endpoint", _LOCAL, *_FOLDERS, *_FILES))
    texts = {key: _text(f"{key} of {what}", value) for key, value in entry.items() if key != _LOCAL}
    for key in _REQUIRED:
        if key not in texts:
            raise ConfigError(f"expected a {key} in {what}, got none")
    if ("usercert" in texts) != ("userkey" in texts):
        raise ConfigError(f"expected usercert and userkey in {what}, got one of them")
    name, user = require_datacenter_name(texts["name"]), require_user(texts["username"])
    home, public = _mounts(what, _places(what, texts, _FOLDERS), Path("/pfs", name), user)
    endpoint = None if "endpoint" not in texts else require_endpoint(texts["endpoint"])
    files, is_local = _places(what, texts, _FILES), _truth(f"{_LOCAL} of {what}", entry.get(_LOCAL))
    return Datacenter(name, user, home, public, endpoint, **files, is_local=is_local)


def _mounts(what: str, places: Mapping[str, Path], default: Path, user: str) -> tuple[Path, Path]:
    if len(places) == len(_FOLDERS):
        raise ConfigError(f"expected mount, or home and public, in {what}, got all three")
    mount = places.get("mount", default)
    return places.get("home", mount / "home" / user), places.get("public", mount / "public")


def _require_keys(what: str, found: Any, keys: Iterable[str]) -> None:
    if not isinstance(found, dict):
        raise ConfigError(f"expected keys with values in {what}, such as: {EXAMPLE}")
    if "password" in found:
        raise ConfigError(
            f"expected no password in {what}: the file server takes tokens, and this file holds no"
            " secret; write the user's token to a file of mode 600, and name it as token_file"
        )
    for key in found.keys() - set(keys):
        near = get_close_matches(str(key), keys, n=1)
        hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(keys)}"
        raise ConfigError(f"expected no key {key!r} in {what}; {hint}")


def _text(what: str, value: Any) -> str:
    if not isinstance(value, str) or not value or "\0" in value:
        raise ConfigError(f"expected a text for {what}, got {value!r}")
    return value


def _truth(what: str, value: Any) -> bool:
    if value is not None and not isinstance(value, bool):
        raise ConfigError(f"expected true or false for {what}, got {value!r}")
    return bool(value)


def _places(what: str, texts: Mapping[str, str], keys: Iterable[str]) -> dict[str, Path]:
    return {key: _place(f"{key} of {what}", texts[key]) for key in keys if key in texts}


def _place(what: str, value: str) -> Path:
    try:
        place = Path(value).expanduser()
    except RuntimeError as error:
        raise ConfigError(f"expected a home folder for {what}, got {value!r}") from error
    if not place.is_absolute() or ".." in place.parts:
        raise ConfigError(f"expected an absolute path without '..' for {what}, got {value!r}")
    return place
