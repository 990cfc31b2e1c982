"""The program of a process that runs commands of trainfeed, one after another, as it is told."""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Final, TextIO

from trainfeed import __file__ as _package
from trainfeed.cli._app import error_of, main

# Messages name the program as they do when one command is run: by this file.
_PROGRAM: Final = str(Path(_package).with_name("__main__.py"))
# From here on, a status is that of a signal.
_SIGNALLED: Final = 128


def serve(answers: int) -> None:
    """Run the commands of standard input until it ends, or until a signal ends this process.

    Args:
        answers: Descriptor of the pipe that gets a line of JSON for each command: its exit status,
            and class and message of the error that ended it, which are empty without one.
    """
    # Commands, and the functions that they run, find standard input empty, as in a pipeline.
    with os.fdopen(os.dup(0)) as orders, Path(os.devnull).open() as nothing:
        os.dup2(nothing.fileno(), 0)
        _serve(orders, answers)


def _serve(orders: TextIO, answers: int) -> None:
    for line in orders:
        status, error = _run(json.loads(line))
        data = f"{json.dumps([status, *error])}\n".encode()
        while data:
            data = data[os.write(answers, data) :]
        if status >= _SIGNALLED:
            sys.exit(status)


def _run(arguments: Sequence[str]) -> tuple[int, tuple[str, str]]:
    sys.argv = [_PROGRAM, *arguments]
    try:
        main()
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
        return status, error_of(end)
    except Exception as error:  # noqa: BLE001 - a fault of one command ends no other one
        traceback.print_exc()
        return 1, (type(error).__name__, str(error))
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    return 0, ("", "")


if __name__ == "__main__":
    serve(int(sys.argv[1]))
