"""Settings of clusters and of tracking servers, for the command line: YAML files."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from trainfeed.errors import ConfigError

_MAX_BYTES: Final = 1 << 20
_SECRETS: Final = frozenset({"token", "password"})
# Other accounts may do nothing with a file of secrets, and its group may at most read it.
_OPEN_MODE: Final = stat.S_IWGRP | stat.S_IXGRP | stat.S_IRWXO
_EXAMPLE: Final = "kubernetes_default: {namespace: training, root: {path: /pfs/dataset}}"


def read_settings(path: Path) -> Mapping[str, Mapping[str, Any]]:
    """Return the settings of clusters, or of tracking servers, by connection id.

    Raises:
        ConfigError: The file cannot be read, is larger than 1 MiB, has another content, or has
            secrets and is open to other accounts. The message has no values of the file.
    """
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            data = file.read(_MAX_BYTES + 1)
        if len(data) > _MAX_BYTES:
            raise ConfigError(f"expected at most {_MAX_BYTES} bytes in {path}, got more")
        found = YAML(typ="safe", pure=True).load(data.decode())
    except OSError as error:
        raise ConfigError(f"cannot read the settings in {path}: {error.strerror}") from error
    except (UnicodeDecodeError, YAMLError) as error:
        # Without the parser's error, which quotes the text around the fault.
        mark = getattr(error, "problem_mark", None)
        where = "" if mark is None else f", line {mark.line + 1}"
        raise ConfigError(f"expected YAML in {path}{where}, such as '{_EXAMPLE}'") from None
    if not isinstance(found, dict) or not all(
        isinstance(name, str) and isinstance(each, dict) for name, each in found.items()
    ):
        raise ConfigError(f"expected {path} to hold settings by connection id: '{_EXAMPLE}'")
    if mode & _OPEN_MODE and any(each.keys() & _SECRETS for each in found.values()):
        raise ConfigError(
            f"expected {path} to be closed to other accounts, because a token or password is in"
            f" it, got mode {stat.S_IMODE(mode):04o}; nothing was started; run: chmod 600 {path}"
        )
    return found
