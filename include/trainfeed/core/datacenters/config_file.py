"""``~/.trainfeed/config``: the data centres that a user of this machine works with."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from functools import lru_cache
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final

from trainfeed.core.datacenters.pfs_path import (
    Datacenter,
    Datacenters,
    require_datacenter_name,
    require_user,
)
from trainfeed.errors import ConfigError

# --- The address of a file server, refused where a token would be sent to another place

_FORM: Final = "https://HOST[:PORT], or http://127.0.0.1[:PORT] for this machine"
_ENDPOINT: Final = re.compile(
    r"(https?)://([A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])(?::([0-9]{1,5}))?/?"
)


def require_endpoint(text: str) -> str:
    """Return the address of a server without a slash at its end.

    Raises:
        ConfigError: The address has another form, or is plain HTTP on another machine. The message
            does not repeat the text, which may have a password.
    """
    found = _ENDPOINT.fullmatch(text)
    if found is None or not 0 < int(found[3] or 443) < 1 << 16:
        raise ConfigError(f"expected an endpoint {_FORM}, without user, path or query")
    if found[1] == "http" and not _is_loopback(found[2].strip("[]")):
        raise ConfigError(
            f"expected https for the endpoint {found[2]}, which is another machine, got http"
        )
    return text.rstrip("/")


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


# --- The entries of ``~/.trainfeed/config``: every key and every value is checked, none is ignored

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


# --- ``~/.trainfeed/config``: the data centres that a user of this machine works with

_MAX_BYTES: Final = 1 << 20
# A pipe is opened at once, and then refused.
_FLAGS: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC


def config_path() -> Path:
    """Return the place of the file, which need not be there.

    Raises:
        ConfigError: The account has no home folder.
    """
    try:
        return Path.home() / ".trainfeed" / "config"
    except RuntimeError as error:
        raise ConfigError(
            "expected a home folder for ~/.trainfeed/config, got none for this account; set HOME"
        ) from error


def read_datacenters(path: Path | None = None) -> Datacenters:
    """Return the data centres of a file; an unchanged file is parsed once in a process.

    Args:
        path: The file; None for ``~/.trainfeed/config``.

    Raises:
        ConfigError: The file is missing, writable by other accounts, or has another content than
            the example of this module. The message names the entry.
    """
    path = config_path() if path is None else path
    try:
        return _parsed(path, _read(path))
    except FileNotFoundError:
        raise ConfigError(
            f"expected the data centres of this account in {path}, got no file; write one, for"
            f" instance: {EXAMPLE}"
        ) from None
    except OSError as error:
        raise ConfigError(f"cannot read the data centres in {path}: {error.strerror}") from error


def _read(path: Path) -> bytes:
    with open(path, "rb", opener=lambda name, _: os.open(name, _FLAGS)) as file:
        _require_own(path, os.fstat(file.fileno()))
        data = file.read(_MAX_BYTES + 1)
    if len(data) > _MAX_BYTES:
        raise ConfigError(f"expected at most {_MAX_BYTES} bytes in {path}, got more")
    return data


def _require_own(path: Path, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise ConfigError(f"expected a plain file with data centres at {path}, got another kind")
    # Clusters mount files that belong to root.
    is_own = found.st_uid in (0, os.geteuid())
    if not is_own or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise ConfigError(
            f"expected {path} to be writable by its own account only, because it says where tokens"
            f" are sent, got mode {stat.S_IMODE(found.st_mode):04o} of user {found.st_uid}; run:"
            f" chmod 600 {path}"
        )


@lru_cache(maxsize=4)
def _parsed(path: Path, data: bytes) -> Datacenters:
    # YAML is imported where a pfs:// path is used: no other process pays for it.
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        return datacenters_of(YAML(typ="safe", pure=True).load(data.decode()), path)
    except (UnicodeDecodeError, YAMLError) as error:
        mark = getattr(error, "problem_mark", None)
        where = "" if mark is None else f", line {mark.line + 1}"
        raise ConfigError(f"expected YAML in {path}{where}, such as: {EXAMPLE}") from None
    except RecursionError:
        raise ConfigError(f"expected YAML in {path} without such deep nesting") from None
    except ConfigError as error:
        raise ConfigError(f"{error} (in {path})") from error
