"""The blocks of docs/guides/plsc.md, and the files that they read."""

import base64
import io
import re
from pathlib import Path

import numpy as np
from PIL import Image

from trainfeed.conversion import process_base64

PAGE = (Path(__file__).parents[1] / "docs" / "guides" / "plsc.md").read_text()
BLOCKS = dict(
    re.findall(r"^### (003-\d{2})\n\n```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
)
FIRST_BLOCK = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)[0]
ROWS = dict(re.findall(r"^\| (003-\d{2}) \|.*\| ([^|]+) \|$", PAGE, re.MULTILINE))
NUM_IMAGES = 20


def image(n):
    """A PNG of 16 by 16 points, the 3 channels alike."""
    values = np.random.default_rng(n % 10).integers(0, 255, (16, 16, 1), np.uint8)
    file = io.BytesIO()
    Image.fromarray(np.repeat(values, 3, axis=2)).save(file, "PNG")
    return file.getvalue()


def make_files(folder):
    """Make folders of images, base64 files of one rank, and a folder that stands for HDFS."""
    for name in ("train_data", "data"):
        (folder / name / "images").mkdir(parents=True)
        lines = [f"images/{n}.png {n % 10}\n" for n in range(NUM_IMAGES)]
        (folder / name / "label.txt").write_text("".join(lines))
        for n in range(NUM_IMAGES):
            (folder / name / "images" / f"{n}.png").write_bytes(image(n))
    (folder / "dataset").mkdir()
    rows = [base64.b64encode(image(n)) + b"\t%d\n" % (n % 10) for n in range(NUM_IMAGES)]
    (folder / "dataset" / "part").write_bytes(b"".join(rows))
    (folder / "dataset" / "file_list.txt").write_text("part\n")
    process_base64(folder / "dataset", "file_list.txt", 1)
    (folder / "models").mkdir()


def run(name, namespace, folder):
    """Run a block as a program; a folder stands for HDFS."""
    code = BLOCKS[name].replace("namenode:8020", "file://")
    code = code.replace('"/models/', f'"{folder}/models/')
    exec(compile(code, name, "exec"), namespace)
