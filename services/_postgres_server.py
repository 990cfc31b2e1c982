"""The PostgreSQL server of the operating system: a port on the loopback, an account, a password.

Airflow has this database in production, so tests with it are tests of the production setup. The
server has data, port and password in this home, and no relation to a cluster that the package may
have made for the machine.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Mapping
from pathlib import Path
from pwd import getpwnam
from types import MappingProxyType
from typing import ClassVar

from services._home import make_private, remembered_ports
from services._packages import install_packages, packages_unavailable
from services._postgres import Postgres
from services._process import run_tool

_NAME = "airflow"  # name of the superuser and of the database
_PACKAGES: Mapping[str, str] = MappingProxyType({"postgres": "postgresql"})
_INSTALLED = Path("/usr/lib/postgresql")
_NO_CLUSTER = Path("/etc/postgresql-common/createcluster.conf")


class PostgresServer(Postgres):
    """A server on 127.0.0.1 with one database and one superuser, both named ``airflow``.

    Args:
        home: State directory of the service; the data are in ``<home>/postgresql``.
    """

    folder: ClassVar[str] = "postgresql"
    PORTS: ClassVar[Mapping[str, int]] = MappingProxyType({"postgres": 15432})

    @property
    def port(self) -> int:
        """The port for clients, the same at every start of this home."""
        return remembered_ports(self._home / self.folder, self.PORTS)["postgres"]

    def unavailable(self) -> str | None:
        """Return why the server cannot run here, or None."""
        return None if _find("postgres") else packages_unavailable(_PACKAGES)

    def install(self) -> None:
        """Install the package of the server if it is missing, without a cluster for the machine."""
        if _find("postgres"):
            return
        if not _NO_CLUSTER.exists():
            _NO_CLUSTER.parent.mkdir(parents=True, exist_ok=True)
            _NO_CLUSTER.write_text("create_main_cluster = false\n")
        install_packages(_PACKAGES)

    def url(self, driver: str) -> str:
        """Return the address of the database for SQLAlchemy with ``driver``, password included."""
        return f"postgresql+{driver}://{_NAME}:{self._password()}@127.0.0.1:{self.port}/{_NAME}"

    def start(self) -> None:
        """Start the server unless it runs, and wait until it accepts connections."""
        super().start()
        made = self._home / self.folder / ".database"
        if not made.exists():
            self._make_database()
            made.touch()

    def _make_database(self) -> None:
        address = ["--host=127.0.0.1", f"--port={self.port}", f"--username={_NAME}"]
        run_tool(
            [self._program("createdb"), *address, _NAME],
            what="creating the database",
            environ={**os.environ, "PGPASSWORD": self._password()},
        )

    def _settings(self) -> dict[str, str]:
        return {
            **super()._settings(),
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "password_encryption": "scram-sha-256",
        }

    def _identity(self) -> list[str]:
        self._password()
        return [f"--username={_NAME}", "--auth=scram-sha-256", f"--pwfile={self._password_file}"]

    @property
    def _password_file(self) -> Path:
        return self._home / self.folder / "secret" / "password"

    def _password(self) -> str:
        """Return the password, made at the first call, readable by us and the server's account."""
        if not self._password_file.exists():
            make_private(self._password_file.parent, self._account())
            self._password_file.touch(mode=0o600)
            self._password_file.write_text(secrets.token_hex(16))
            if account := self._account():
                shutil.chown(self._password_file, account)
        return self._password_file.read_text()

    def _program(self, name: str) -> str:
        found = _find(name)
        if found is None:
            raise FileNotFoundError(f"{name} of PostgreSQL is not installed")
        return found

    def _account(self) -> str | None:
        if os.geteuid() != 0:
            return None
        try:
            return getpwnam("postgres").pw_name
        except KeyError:
            return "nobody"


def _find(name: str) -> str | None:
    """Return a program of the newest installed version; Debian's are not on the search path."""
    versions = sorted(_INSTALLED.glob(f"*/bin/{name}"), key=lambda path: int(path.parts[4]))
    return str(versions[-1]) if versions else shutil.which(name)
