"""Apps behind the guard, asked without a socket, and a program that serves one."""

import asyncio
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import httpx
from fastapi import APIRouter, Request

from trainfeed.errors import ConfigError
from trainfeed.server import Limits, ServerSettings, caller_of, make_app, new_token, serve

SCOPES = {"/echo": "talk", "/slow": "talk", "/broken": "talk", "/wrong": "talk", "/form": "talk"}


def routes():
    router = APIRouter()

    @router.post("/echo")
    async def echo(request: Request):
        body = await request.body()
        return {"who": caller_of(request).name, "bytes": len(body)}

    @router.get("/slow")
    async def slow():
        await asyncio.Event().wait()

    @router.get("/broken")
    async def broken():
        raise ZeroDivisionError("a word of the inside")

    @router.get("/wrong")
    async def wrong():
        raise ConfigError("expected a data set, got password=hunter2")

    @router.post("/form")
    async def form(number: int):
        return {"number": number}

    return router


def made(folder, *, limits=None, scopes="*", expires=None, **settings):
    """An app, its token, and its settings."""
    tokens = folder / "tokens.txt"
    token = new_token(tokens, "anna", scopes=scopes, expires=expires)
    chosen = ServerSettings(
        token_file=tokens, audit_log=folder / "audit.jsonl", limits=limits or Limits(), **settings
    )
    return make_app(routes(), chosen, scopes=SCOPES), token, chosen


def client(app):
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1")


def ask(app, token, method, path, **more):
    """One request, answered without a socket."""

    async def asked():
        headers = {"authorization": f"Bearer {token}".encode("latin-1")} if token else {}
        async with client(app) as http:
            return await http.request(method, path, headers=headers, **more)

    return asyncio.run(asked())


@contextmanager
def running(folder, *, program=__name__, **settings):
    """The process of a server with a free port, and the port; ended by SIGTERM."""
    port_file = folder / "port"
    port_file.unlink(missing_ok=True)
    code = f"import sys; from {program} import main; main(*sys.argv[1:])"
    words = [f"{name}={value}" for name, value in settings.items()]
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(folder), *words],
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    try:
        while not port_file.exists():
            assert process.poll() is None, process.stderr.read().decode()
        yield process, int(port_file.read_text())
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)


def main(folder, *words):
    """Serve the routes above until SIGTERM."""
    folder, given = Path(folder), dict(word.split("=", 1) for word in words)
    own = {name: float(given.pop(name)) for name in list(given) if name in Limits.__annotations__}
    limits = replace(Limits(), **own)
    paths = {name: Path(value) for name, value in given.items()}
    tokens = folder / "tokens.txt"
    settings = ServerSettings(token_file=tokens, port_file=folder / "port", limits=limits, **paths)
    serve(make_app(routes(), settings, scopes=SCOPES), settings)
