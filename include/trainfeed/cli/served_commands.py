"""The program of a process that runs commands of trainfeed, one after another, as it is told."""

from __future__ import annotations

import signal
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

from trainfeed import __file__ as _package
from trainfeed.cli import _app

# Messages name the program as they do when one command is run: by this file.
_PROGRAM: Final = str(Path(_package).with_name("__main__.py"))
# From here on, a status is that of a signal.
_SIGNALLED: Final = 128


def main(channel: int, _: int) -> None:
    """Run commands until the connection is closed, or until a signal ends this process.

    Args:
        channel: Descriptor of the connection. It brings the arguments of a command, and gets its
            exit status with class and message of the error that ended it, empty without one.
    """
    # Ctrl-C in a terminal does not come to this process, which leads a session of its own.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    connection: Connection[Any, Any] = Connection(channel)
    while True:
        try:
            arguments: Sequence[str] = connection.recv()
        except EOFError:
            return
        status, error = _run(arguments)
        with suppress(BrokenPipeError):  # the one who asked was killed meanwhile
            connection.send((status, error))
        if status >= _SIGNALLED:
            sys.exit(status)


def _run(arguments: Sequence[str]) -> tuple[int, tuple[str, str]]:
    sys.argv = [_PROGRAM, *arguments]
    try:
        _app.main()
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
        return status, _app.error_of(end)
    except Exception as error:  # noqa: BLE001 - a fault of one command ends no other one
        traceback.print_exc()
        return 1, (type(error).__name__, str(error))
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    return 0, ("", "")
