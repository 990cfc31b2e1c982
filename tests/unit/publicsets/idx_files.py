"""The four files of MNIST with few digits, and a package with files as pip installs it."""

import base64
import gzip
import hashlib
import struct

import numpy as np

NAMES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte")
NUM_TRAIN, NUM_TEST = 60, 10


def drawn(seed, count):
    """Random pixels (count, 28, 28) and labels (count,), both uint8."""
    chance = np.random.default_rng(seed)
    pixels = chance.integers(0, 256, (count, 28, 28), np.uint8)
    return pixels, chance.integers(0, 10, count, np.uint8)


def idx(values):
    """The bytes of an IDX file."""
    head = struct.pack(f">HBB{values.ndim}I", 0, 8, values.ndim, *values.shape)
    return head + values.tobytes()


def write_mnist(folder, *, packed=False, seed=1):
    """Write the four files; return train and test as (pixels, labels)."""
    folder.mkdir(parents=True, exist_ok=True)
    train, test = drawn(seed, NUM_TRAIN), drawn(seed + 1, NUM_TEST)
    for part, (pixels, labels) in (("train", train), ("t10k", test)):
        for kind, values in (("images-idx3-ubyte", pixels), ("labels-idx1-ubyte", labels)):
            data = idx(values)
            name = f"{part}-{kind}{'.gz' if packed else ''}"
            (folder / name).write_bytes(gzip.compress(data, mtime=0) if packed else data)
    return train, test


def install(folder, package, version, files):
    """Write files as ``pip install --target`` does: with metadata and the digest of each."""
    about = f"{package.replace('-', '_')}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n"
    files = {
        **files,
        f"{about}/METADATA": metadata.encode(),
        f"{about}/LICENSE": b"do as you like\n",
    }
    rows = []
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        rows.append(f"{name},sha256={digest},{len(data)}")
    (folder / about / "RECORD").write_text("\n".join([*rows, f"{about}/RECORD,,", ""]))
    return folder
