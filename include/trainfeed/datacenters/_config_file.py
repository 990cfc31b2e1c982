"""``~/.trainfeed/config``: the data centres that a user of this machine works with.

::

    datacenters:
      - name: dc1
        username: alice
        mount: /mnt/dc1                     # /mnt/dc1/home/alice and /mnt/dc1/public
        endpoint: https://pfs.dc1.example:8443
        token_file: ~/.trainfeed/dc1.token
    current-datacenter: dc1

Only paths of secrets are in it, never a secret. The file is in the home folder of the account, in
containers too (``HOME``), so no variable has to reach the processes that a job starts.
"""

from __future__ import annotations

import os
import stat
from functools import lru_cache
from pathlib import Path
from typing import Final

from trainfeed.datacenters._config_entries import EXAMPLE, datacenters_of
from trainfeed.datacenters._datacenter import Datacenters
from trainfeed.errors import ConfigError

__all__ = ["config_path", "read_datacenters"]

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
