"""Apps behind the guard, asked without a socket, and a program that serves one."""

import asyncio
import multiprocessing
from contextlib import contextmanager

import httpx
from fastapi import APIRouter, Request

from trainfeed.errors import ConfigError
from trainfeed.serving.server import Limits, ServerSettings, caller_of, make_app, new_token, serve

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
def running(folder, *, program=None, **settings):
    """The process of a server with a free port, and the port; ended by SIGTERM.

    A fork of this process, which has imported everything already.
    """
    port_file = folder / "port"
    port_file.unlink(missing_ok=True)
    process = multiprocessing.get_context("fork").Process(
        target=program or main, args=(folder,), kwargs=settings
    )
    process.start()
    try:
        while not port_file.exists():
            assert process.is_alive()
        yield process, int(port_file.read_text())
    finally:
        if process.is_alive():
            process.terminate()
        process.join(60)
        process.close()


def main(folder, **given):
    """Serve the routes above until SIGTERM."""
    own = {name: given.pop(name) for name in list(given) if name in Limits.__annotations__}
    settings = ServerSettings(
        token_file=folder / "tokens.txt", port_file=folder / "port", limits=Limits(**own), **given
    )
    serve(make_app(routes(), settings, scopes=SCOPES), settings)
