"""Predictions beside an Airflow: by the command line, and by a service on the loopback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import contextmanager

from services._home import REPOSITORY
from tests.e2e.ways import until
from trainfeed.serving.server import Access, Client, new_token


def predicted(place, *arguments):
    """The lines of ``trainfeed predict``, parsed."""
    command = [sys.executable, "-m", "trainfeed", "predict", *arguments]
    done = subprocess.run(command, env=_environ(place), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@contextmanager
def service(place, model, folder):
    """Serve a model; yield a function that posts a request for predictions."""
    token, port_file = folder / "token.txt", folder / "port"
    token.touch(mode=0o600)
    token.write_text(new_token(folder / "tokens.txt", "anna", scopes="predict,metrics"))
    command = [sys.executable, "-m", "trainfeed", "serve", model]
    command += ["--tokens", folder / "tokens.txt", "--port", "0"]
    command += ["--port-file", port_file]
    with subprocess.Popen(command, env=_environ(place)) as process:
        try:
            until(lambda: port_file.exists() or process.poll() is not None, "the service")
            url = f"http://127.0.0.1:{port_file.read_text().strip()}"
            with Client(url, Access(token_file=token)) as client:
                yield lambda body: client.post("/v1/predict", body)
        finally:
            process.terminate()
        assert process.wait() == 0


def _environ(place):
    return {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(REPOSITORY / "include"),
        "TRAINFEED_ROOT": str(place.root),
        "TRAINFEED_DATASETS": place.environ["TRAINFEED_DATASETS"],
    }
