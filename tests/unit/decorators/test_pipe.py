"""PipeReader: lines of commands, to the last one and to the exit status."""

import gzip
import sys

import pytest

from trainfeed.decorators import PipeReader, batch
from trainfeed.errors import FormatError, LoaderError, NotFoundError, TruncatedError


def written(tmp_path, data):
    path = tmp_path / "data file"
    path.write_bytes(data)
    return ["cat", str(path)]


@pytest.mark.parametrize("bufsize", [1, 2, 3, 8192])
@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"", []),
        (b"a", ["a"]),
        (b"a\n", ["a"]),
        (b"a\nb", ["a", "b"]),
        (b"\n\n", ["", ""]),
        (b"a\r\nb\n", ["a\r", "b"]),
        ("é€😀\nü".encode(), ["é€😀", "ü"]),
    ],
)
def test_every_line_arrives(tmp_path, data, lines, bufsize):
    for kind, stored in (("plain", data), ("gzip", gzip.compress(data))):
        reader = PipeReader(written(tmp_path, stored), bufsize, kind).get_line
        assert list(reader()) == list(reader()) == lines


def test_a_line_break_may_have_several_characters(tmp_path):
    for bufsize in (1, 2, 3, 100):
        reader = PipeReader(written(tmp_path, b"a<br>b<brb<br><br>c"), bufsize)
        assert list(reader.get_line(line_break="<br>")) == ["a", "b<brb", "", "c"]
    with pytest.raises(ValueError, match="line break"):
        list(reader.get_line(line_break=""))


def test_text_can_be_had_uncut(tmp_path):
    reader = PipeReader(written(tmp_path, b"a\nb\n"), bufsize=3)
    assert "".join(reader.get_line(cut_lines=False)) == "a\nb\n"


def test_all_members_of_a_gzip_stream_are_read(tmp_path):
    data = gzip.compress(b"a\n") + gzip.compress(b"") + gzip.compress(b"b\n") + bytes(512)
    for bufsize in (1, 7, 8192):
        assert list(PipeReader(written(tmp_path, data), bufsize, "gzip").get_line()) == ["a", "b"]


def test_a_stream_that_grows_a_thousandfold_comes_in_small_pieces(tmp_path):
    data = gzip.compress(bytes(1 << 24))
    reader = PipeReader(written(tmp_path, data), 1024, "gzip")
    pieces = [len(piece) for piece in reader.get_line(cut_lines=False)]
    assert (sum(pieces), max(pieces) <= 16 * 1024) == (1 << 24, True)


def test_every_cut_of_a_gzip_stream_is_told(tmp_path):
    data = gzip.compress(b"some text\n" * 5)
    for length in range(1, len(data)):
        with pytest.raises(TruncatedError):
            list(PipeReader(written(tmp_path, data[:length]), 64, "gzip").get_line())


def test_damage_is_told(tmp_path):
    with pytest.raises(FormatError, match="gzip stream is damaged"):
        list(PipeReader(written(tmp_path, b"no gzip"), 64, "gzip").get_line())
    with pytest.raises(FormatError, match="UTF-8"):
        list(PipeReader(written(tmp_path, b"ok\n\xff\xfe"), 64).get_line())
    with pytest.raises(FormatError, match="UTF-8"):
        list(PipeReader(written(tmp_path, "é".encode()[:1]), 64).get_line())


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("import sys; print('x'); sys.exit(3)", "status 3"),
        ("import os; print('x', flush=True); os.kill(os.getpid(), 9)", "killed by SIGKILL"),
    ],
)
def test_an_exit_status_is_told_after_the_lines(code, message):
    lines = PipeReader([sys.executable, "-c", code]).get_line()
    assert next(lines) == "x"
    with pytest.raises(LoaderError, match=message):
        next(lines)


def test_no_shell_sees_a_text(tmp_path):
    assert list(PipeReader("echo 'a  b' | $HOME *").get_line()) == ["a  b | $HOME *"]
    with pytest.raises(NotFoundError):
        list(PipeReader("no-such-program-anywhere x").get_line())


@pytest.mark.parametrize("command", [None, 5, ["a", 1], b"cat x"])
def test_what_is_no_command_is_refused(command):
    with pytest.raises(TypeError, match="expected a text"):
        PipeReader(command)


def test_other_arguments_are_checked():
    with pytest.raises(TypeError, match="file_type"):
        PipeReader("cat x", file_type="zip")
    with pytest.raises(ValueError, match="bufsize"):
        PipeReader("cat x", bufsize=0)
    with pytest.raises(ValueError, match="empty"):
        PipeReader("")


def test_leaving_early_ends_the_command():
    for _ in range(3):
        for line in PipeReader(["yes"]).get_line():
            assert line == "y"
            break


def test_lines_are_samples_like_others(tmp_path):
    reader = batch(PipeReader(written(tmp_path, b"a\nb\nc")).get_line, 2)
    assert list(reader()) == list(reader()) == [["a", "b"], ["c"]]
