"""A file server in a process of its own, with two users, and trees that ask it."""

import http.client
import json
import multiprocessing
import os
import signal
from contextlib import contextmanager
from pathlib import Path

from trainfeed.core import faults
from trainfeed.core.datacenters import PfsPath
from trainfeed.serving.pfs.file_server import FileServerSettings, serve_files
from trainfeed.serving.pfs.limits import FileLimits
from trainfeed.serving.pfs.remote import ServerTree
from trainfeed.serving.pfs.wire import DATA
from trainfeed.serving.server import Access, Client, Limits, Reply, ServerSettings, new_token

USERS = ("alice", "bob")


class Storage:
    """The folder of a data centre ``dc``, tokens of its users, and its server's files."""

    def __init__(self, folder: Path, mount: Path | None = None) -> None:
        self.folder = folder
        self.mount = folder / "dc" if mount is None else mount
        for user in USERS:
            (self.mount / "home" / user).mkdir(parents=True)
        (self.mount / "public").mkdir()
        self.tokens = folder / "tokens.txt"
        for user in USERS:
            self.give_token(user)

    def give_token(self, user: str, **more: object) -> str:
        """Write a new token of a user to the user's file, and return it."""
        token = new_token(self.tokens, user, **{"scopes": "pfs", **more})
        path = self.token_file(user)
        path.touch(0o600)
        path.write_text(token)
        return token

    def token_file(self, user: str) -> Path:
        return self.folder / f"{user}.token"

    def home(self, user: str = "alice") -> Path:
        return self.mount / "home" / user

    def audit(self) -> list[dict]:
        lines = (self.folder / "audit.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines]

    def settings(self, limits=None, server_limits=None, **server) -> FileServerSettings:
        made = ServerSettings(
            token_file=self.tokens,
            port_file=self.folder / "port",
            audit_log=self.folder / "audit.jsonl",
            limits=server_limits or Limits(),
            **server,
        )
        return FileServerSettings(made, "dc", self.mount, limits or FileLimits(), is_local=True)


class CountingClient(Client):
    """A client that counts the bytes of chunks that the server has accepted."""

    accepted = 0

    def ask(self, method: str, path: str, *parameters: object, **more: object) -> Reply:
        reply = super().ask(method, path, *parameters, **more)
        if method == "POST" and path.startswith(DATA) and reply.status == 200:
            self.accepted += len(more["body"])
        return reply


class Running:
    """A server in a process that can be killed and started again at the same port."""

    def __init__(self, storage: Storage, **settings: object) -> None:
        self._storage = storage
        self._settings = settings
        self._process = None
        self.port = 0
        self.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def url(self) -> str:
        scheme = "https" if "certificate" in self._settings else "http"
        return f"{scheme}://127.0.0.1:{self.port}"

    def start(self, **changed: object) -> None:
        """Start the server at its port; a setting that is given changes from now on."""
        self._settings |= changed
        port_file = self._storage.folder / "port"
        port_file.unlink(missing_ok=True)
        given = dict(self._settings)
        fault = given.pop("fault", None)
        settings = self._storage.settings(port=self.port, **given)
        ours, ready = multiprocessing.Pipe(duplex=False)
        self._process = multiprocessing.get_context("fork").Process(
            target=_serve, args=(settings, fault, ready)
        )
        self._process.start()
        ready.close()
        # The end of a server that does not start closes the pipe.
        with ours:
            ours.recv()
        self.port = int(port_file.read_text())

    def kill(self) -> None:
        os.kill(self._process.pid, signal.SIGKILL)
        self._process.join(60)

    def stop(self) -> None:
        if self._process.is_alive():
            self._process.terminate()
        self._process.join(60)
        assert not self._process.is_alive()

    def client(self, user: str = "alice", **more: object) -> CountingClient:
        access = Access(token_file=self._storage.token_file(user))
        return CountingClient(self.url, access, **{"patience_seconds": 30.0, **more})

    def tree(self, user: str = "alice", area: str = "home", **more: object) -> ServerTree:
        root = PfsPath("dc", area, user if area == "home" else None, ())
        return ServerTree(self.client(user, **more), root)


def _serve(settings: FileServerSettings, fault: str | None, ready) -> None:
    if fault is not None:
        os.environ[faults.VARIABLE] = fault
        faults._plan.cache_clear()
    serve_files(settings, on_ready=ready.send)


def asked(server: Running, token: str | None, method: str, target: str, body=b"", headers=None):
    """Status and body of one request, sent as it stands, without corrections of a library."""
    kind = "application/json" if body[:1] == b"{" else "application/octet-stream"
    shown = {} if token is None else {"Authorization": f"Bearer {token}"}
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    try:
        connection.request(method, target, body, {"Content-Type": kind, **shown, **(headers or {})})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


@contextmanager
def running(storage: Storage, **settings: object):
    """A running server, ended by SIGTERM."""
    server = Running(storage, **settings)
    try:
        yield server
    finally:
        server.stop()
