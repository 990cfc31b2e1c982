"""The storage half of PaddlePaddle's document as it stands: convert, upload, read.

Its edits: the prefix of the files is quoted, and the reader names them where they were copied to.
"""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

import trainfeed
from trainfeed.compat import paddle
from trainfeed.compat.paddle.dataset.common import convert

SHELL = f"""set -e
paddle() {{ "{sys.executable}" -m trainfeed paddle "$@"; }}
"""


def shell(commands, home):
    """Run commands of the document; return their output, and their messages."""
    environ = {
        **os.environ,
        "HOME": str(home),
        "PYTHONPATH": str(Path(trainfeed.__file__).parents[1]),
    }
    done = subprocess.run(
        ["bash", "-c", SHELL + commands], check=False, capture_output=True, text=True, env=environ
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def reader_creator():
    random = np.random.RandomState(7)

    def reader():
        for _ in range(1000):
            yield random.uniform(-1, 1, size=28 * 28), 0

    return reader


def digests(folder, pattern):
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in folder.glob(pattern)}


def play(account, area):
    """Play the document in the working directory; ``area`` is the folder of ``pfs://home``."""
    convert("./", reader_creator(), 100, "random_images")
    Path("filenames").write_text("a")
    output, message = shell(
        """
paddle cp random_images-*-of-* pfs://home/
paddle cp filenames pfs://home/folder/
""",
        account,
    )
    assert output.splitlines()[0].startswith("copied 101 files")
    assert "random_images.shards.json is copied too" in message
    assert (area / "folder/filenames").read_text() == "a"
    assert digests(area, "random_images*") == digests(Path(), "random_images*")
    read_as_converted()


def read_as_converted():
    shared = list(paddle.reader.creator.RecordIO("pfs://home/random_images-*-of-*")())
    local = list(paddle.reader.creator.RecordIO("./random_images-*-of-*")())
    assert len(shared) == 1000
    for (image, label), (expected, number) in zip(shared, local, strict=True):
        assert (type(image), image.dtype, label, type(label)) == (np.ndarray, float, number, int)
        assert np.array_equal(image, expected)
    batch_reader = paddle.batch(
        paddle.reader.creator.RecordIO("pfs://home/random_images-*-of-*"), 128
    )
    assert [len(samples) for samples in batch_reader()] == [128] * 7 + [104]


def downloaded(account):
    """Copies again send nothing, and copies back are equal; later documents write ``pfs``."""
    output, _ = shell(
        """
paddle pfs cp random_images-*-of-* pfs://home/
mkdir down
paddle pfs cp 'pfs://home/random_images-*-of-*' down
paddle pfs mkdir pfs://home/new
paddle pfs ls pfs://home/
paddle pfs rm -r pfs://home/folder pfs://home/new
""",
        account,
    )
    assert output.startswith("copied 0 files, sent 0 bytes, 101 were there already")
    assert digests(Path("down"), "*") == digests(Path(), "random_images*")
    assert "pfs://home/new" in output
    assert "pfs://home/folder" in output
