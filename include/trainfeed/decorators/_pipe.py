"""``PipeReader``: the lines that a command writes."""

from __future__ import annotations

import codecs
import shlex
import subprocess
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from trainfeed.errors import FormatError, LoaderError, TruncatedError
from trainfeed.paths import os_errors
from trainfeed.process_ties import ending
from trainfeed.readers import open_reader

__all__ = ["PipeReader"]

_GZIP_WINDOW: Final = 16 + zlib.MAX_WBITS
_MAX_LINE_CHARS: Final = 64 << 20
# Time for the command to exit after it has closed its output.
_EXIT_S: Final = 10.0


class PipeReader:
    """The lines of the output of a command; ``get_line`` is a reader.

    Args:
        command: A program and its arguments. A text is split like in a shell, but no shell runs:
            ``|``, ``*`` and ``$`` have no effect.
        bufsize: Bytes to read at once, 1 or more.
        file_type: ``"plain"`` or ``"gzip"``; gzip output may have several members.

    Raises:
        TypeError: The command is neither text nor a list of texts, or the file type is unknown.
        ValueError: The command is empty, or ``bufsize`` is below 1.
    """

    def __init__(
        self, command: str | Sequence[str], bufsize: int = 8192, file_type: str = "plain"
    ) -> None:
        if file_type not in {"plain", "gzip"}:
            raise TypeError(f"expected file_type 'plain' or 'gzip', got {file_type!r}")
        is_text = isinstance(command, str)
        if not is_text and not (
            isinstance(command, list | tuple) and all(isinstance(word, str) for word in command)
        ):
            raise TypeError(f"expected a text or a list of texts, got {command!r}")
        self.command = shlex.split(command) if isinstance(command, str) else list(command)
        if not self.command:
            raise ValueError("expected a command, got an empty one")
        if bufsize < 1:
            raise ValueError(f"expected a bufsize of 1 or more, got {bufsize}")
        self._bufsize = bufsize
        self._file_type = file_type

    def get_line(self, cut_lines: bool = True, line_break: str = "\n") -> Iterator[str]:
        """Run the command and yield its lines, each without its line break.

        The command is killed when the iterator ends for any reason.

        Args:
            cut_lines: False yields the text in pieces of any length.
            line_break: Text that ends a line.

        Raises:
            NotFoundError: The program does not exist.
            LoaderError: The command has exited with another status than 0, or was killed; raised
                after all lines.
            FormatError: The output is not UTF-8, or cannot be decompressed, or has a line of more
                than 64 Mi characters.
            TruncatedError: The gzip stream ends inside a member.
        """
        if not line_break:
            raise ValueError("expected a line break of one character or more, got none")
        with open_reader(self._texts) as texts:
            yield from _lines(texts, line_break) if cut_lines else texts

    def _texts(self) -> Iterator[str]:
        with os_errors(self.command[0]):
            process = subprocess.Popen(  # noqa: S603 (no shell; the command is the user's own)
                self.command, bufsize=0, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
            )
        try:
            pieces = self._pieces(process)
            yield from _decoded(_inflated(pieces) if self._file_type == "gzip" else pieces)
            self._check_exit(process)
        finally:
            process.kill()
            # Waits for the process and closes the pipe.
            with process:
                pass

    def _pieces(self, process: subprocess.Popen[bytes]) -> Iterator[bytes]:
        output = process.stdout
        while output is not None and (data := output.read(self._bufsize)):
            yield data

    def _check_exit(self, process: subprocess.Popen[bytes]) -> None:
        try:
            status = process.wait(_EXIT_S)
        except subprocess.TimeoutExpired:
            raise LoaderError(
                f"{shlex.join(self.command)} has closed its output and does not exit"
            ) from None
        if status:
            raise LoaderError(
                f"{shlex.join(self.command)} {ending(status)}; lines that it had written were"
                " delivered"
            )


def _inflated(pieces: Iterable[bytes]) -> Iterator[bytes]:
    member, is_inside = zlib.decompressobj(_GZIP_WINDOW), False
    try:
        for piece in pieces:
            data = piece
            # Zero bytes between and after members are padding.
            while data := data if is_inside else data.lstrip(b"\0"):
                is_inside = True
                yield member.decompress(data, len(piece) * 16)
                data = member.unconsumed_tail
                if member.eof:
                    data, is_inside = member.unused_data, False
                    member = zlib.decompressobj(_GZIP_WINDOW)
    except zlib.error as error:
        raise FormatError(f"the gzip stream is damaged: {error}") from error
    if is_inside:
        raise TruncatedError("the gzip stream ends inside a member")


def _decoded(pieces: Iterable[bytes]) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for piece in pieces:
            yield decoder.decode(piece)
        yield decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        raise FormatError(f"expected UTF-8: {error}") from error


def _lines(texts: Iterable[str], line_break: str) -> Iterator[str]:
    rest = ""
    for text in texts:
        # The part of a long line that was searched before is not searched again.
        start = max(0, len(rest) - len(line_break) + 1)
        rest += text
        if rest.find(line_break, start) >= 0:
            *lines, rest = rest.split(line_break)
            yield from lines
        if len(rest) > _MAX_LINE_CHARS:
            raise FormatError(f"a line has more than {_MAX_LINE_CHARS} characters")
    if rest:
        yield rest
