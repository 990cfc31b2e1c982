"""The folders of services for state and sockets, and their ports."""

from __future__ import annotations

import json
import os
import random
import shutil
import socket
import stat
import uuid
from collections.abc import Iterable, Mapping
from hashlib import sha256
from pathlib import Path
from pwd import getpwnam

from services._process import ServiceError

REPOSITORY = Path(__file__).resolve().parent.parent

_PORTS_FILE = "ports.json"
_MAX_SOCKET_PATH_BYTES = 100  # the kernel's limit is 107

# Below the range of the kernel's ports for outgoing connections.
_FREE_PORTS = range(20000, 32000)


def default_home() -> Path:
    """Return the state directory of all services: $TRAINFEED_SERVICES_HOME or ``.services``."""
    return Path(os.environ.get("TRAINFEED_SERVICES_HOME") or REPOSITORY / ".services").resolve()


def remembered_ports(home: Path, preferred: Mapping[str, int]) -> dict[str, int]:
    """Return the ports of the service in ``home``, chosen once and kept in ``ports.json``.

    Args:
        home: State directory of one service.
        preferred: Name → port. These are chosen in the default home if all are free; otherwise
            any free ports are.
    """
    chosen = home / _PORTS_FILE
    if not chosen.exists():
        by_default = home.parent == default_home()
        wanted = by_default and _all_free(preferred.values())
        home.mkdir(parents=True, exist_ok=True)
        _claim(chosen, json.dumps(dict(preferred) if wanted else _free(preferred)))
    return known_ports(home)


def known_ports(home: Path) -> dict[str, int]:
    """Return the ports of the service in ``home``; empty before its first start."""
    chosen = home / _PORTS_FILE
    ports: dict[str, int] = json.loads(chosen.read_text()) if chosen.exists() else {}
    return ports


def socket_folder(folder: Path, name: str) -> Path:
    """Return ``folder``, or a shorter path if that of a socket ``name`` in it would be too long."""
    if len(os.fsencode(folder / name)) <= _MAX_SOCKET_PATH_BYTES:
        return folder
    return Path("/tmp") / f"trainfeed-{sha256(os.fsencode(folder)).hexdigest()[:16]}"  # noqa: S108


def make_private(folder: Path, account: str | None = None) -> None:
    """Make a folder that only ``account`` (by default our own) can open.

    Raises:
        ServiceError: The folder belongs to another account.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    owners = {os.geteuid()} if account is None else {os.geteuid(), getpwnam(account).pw_uid}
    found = folder.lstat()  # in /tmp a stranger may have been here first
    if not stat.S_ISDIR(found.st_mode) or found.st_uid not in owners:
        raise ServiceError(f"{folder} belongs to another account")
    if account is not None:
        shutil.chown(folder, account)
    folder.chmod(0o700)


def _claim(path: Path, text: str) -> None:
    """Make a complete file with this content, unless another process was faster."""
    temporary = path.with_name(f"{path.name}.{uuid.uuid4()}.tmp")
    temporary.write_text(text)
    # A link appears with the whole content, and fails if the name is taken.
    try:
        path.hardlink_to(temporary)
    except FileExistsError:
        pass
    except OSError:  # shared folders of virtual machines have no links
        temporary.replace(path)
    temporary.unlink(missing_ok=True)


def _free(names: Iterable[str]) -> dict[str, int]:
    candidates = random.SystemRandom().sample(_FREE_PORTS, len(_FREE_PORTS))
    free = (port for port in candidates if _all_free([port]))
    return {name: next(free) for name in names}


def _all_free(ports: Iterable[int]) -> bool:
    for port in ports:
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                return False
    return True
