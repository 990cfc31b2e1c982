"""Commands of trainfeed as forks of one warm interpreter: ``command("build", "clicks", env=…)``.

A new interpreter needs more than a second for the imports of a build, and the worker that it starts
needs them again; kills at every point need thousands of both. The warm interpreter has one thread
and no test in it: a fork of it is what a new one is after its imports. What a command starts of
trainfeed's own programs is a fork, too, and everything is gone when the command has ended.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import selectors
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Less than a test may take in all, so that the message is ours; no machine is that slow.
LIMIT_S = 240.0
_IMPORTED = (
    "pyarrow.compute",
    "pyarrow.parquet",
    "trainfeed.pipeline.build_attempts",
    "trainfeed.pipeline.check",
    "trainfeed.pipeline.convert",
    "trainfeed.pipeline.functions.jobs",
    "trainfeed.pipeline.ingest",
    "trainfeed.pipeline.local",
    "trainfeed.pipeline.plan",
    "trainfeed.pipeline.preprocess",
    "trainfeed.pipeline.preview",
    "trainfeed.pipeline.publish",
    "trainfeed.pipeline.quarantine",
    "trainfeed.pipeline.workers._worker_main",
    "trainfeed.readers",
    "trainfeed.upkeep.repair",
    "trainfeed.upkeep.retention",
)


def command(*arguments: str, env: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Run ``trainfeed …`` to its end, with these variables and no others.

    Args:
        arguments: What follows ``trainfeed``.
        env: Its variables.

    Returns:
        As ``subprocess.run`` does: the status, negative for a signal, and what was printed.
    """
    return _warm().run(arguments, env)


@cache
def _warm() -> _Warm:
    return _Warm()


class _Warm:
    """The warm interpreter, seen from the tests; it ends with them."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.warm"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'include'}"},
        )
        atexit.register(self._end)

    def run(self, arguments, env):
        try:
            with tempfile.TemporaryDirectory() as folder:
                return self._run(arguments, env, Path(folder))
        except BaseException:  # as of pytest-timeout: its answer would be taken for the next one
            self._process.kill()
            _warm.cache_clear()
            raise

    def _run(self, arguments, env, folder):
        output, errors = folder / "output", folder / "errors"
        request = [list(arguments), dict(env), str(output), str(errors)]
        self._process.stdin.write(f"{json.dumps(request)}\n")
        self._process.stdin.flush()
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            if not selector.select(LIMIT_S):
                raise subprocess.TimeoutExpired(arguments, LIMIT_S)
        status = int(self._process.stdout.readline())
        return subprocess.CompletedProcess(
            arguments, status, output.read_text(), errors.read_text()
        )

    def _end(self):
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


def main() -> None:
    """Answer each line with the status of the command that it asks for."""
    from tests.kills.forked import fork_programs, forked
    from trainfeed.cli import main as trainfeed
    from trainfeed.pipeline.workers.protocol import adopt_orphans

    for name in _IMPORTED:
        importlib.import_module(name)
    adopt_orphans()
    fork_programs()
    gc.freeze()
    for line in sys.stdin:
        arguments, env, output, errors = json.loads(line)

        def act(arguments=arguments, env=env):
            os.environ.clear()
            os.environ.update(env)
            sys.argv = ["trainfeed", *arguments]
            trainfeed()

        sys.stdout.write(f"{forked(act, Path(output), Path(errors))}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
