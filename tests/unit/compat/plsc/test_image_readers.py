"""Folders of images with ``label.txt``, and base64 files of ranks, as readers of an entry."""

import base64 as codec
import gc
import io
import itertools
import logging
from collections import Counter

import numpy as np
import pytest
from PIL import Image

from trainfeed.compat.plsc.entry_readers import AssignedReader, SampleForm, custom_reader
from trainfeed.compat.plsc.readers import Base64Images, base64, jpeg
from trainfeed.compat.plsc.readers.jpeg import ImageFolder
from trainfeed.conversion import ImageOptions, process_base64
from trainfeed.decorators import batch, resumable
from trainfeed.errors import ConfigError, FormatError, NotFoundError, ReaderEndedError

NUM = 10


def pixels(n):
    """An image that tells its number, and whether it was mirrored."""
    values = np.full((4, 6, 3), 20 * n, np.uint8)
    values[:, 0] = 255
    return values


def png(n):
    file = io.BytesIO()
    Image.fromarray(pixels(n)).save(file, "PNG")
    return file.getvalue()


def options(**values):
    return ImageOptions(**{"shape": (4, 6), "num_classes": 3, **values})


@pytest.fixture
def folder(tmp_path):
    lines = []
    for n in range(NUM):
        place = tmp_path / "images" / f"class {n % 3}"
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{n}.png").write_bytes(png(n))
        lines.append(f"images/class {n % 3}/{n}.png {n % 3}\n")
    (tmp_path / "label.txt").write_text("".join(lines))
    return tmp_path


def read(folder, **values):
    return ImageFolder(folder, **{"images": options(), **values})


def number_of(image):
    """The number of an image, from a column that is not the marked one."""
    return round((float(image[0, 0, 2]) * 128 + 127.5) / 20)


def order(samples):
    return [number_of(image) for image, _ in samples]


def flips(samples):
    return {number_of(image): image[0, 0, 0] < image[0, 0, -1] for image, _ in samples}


def test_images_are_normalised_and_labels_are_numbers(folder):
    found = list(read(folder, seed=None)())
    assert order(found) == list(range(NUM))
    for n, (image, label) in enumerate(found):
        expected = (pixels(n).transpose(2, 0, 1).astype(np.float32) - 127.5) / 128
        assert np.array_equal(image, expected)
        assert image.dtype == np.float32
        assert (type(label), label) == (int, n % 3)


def test_each_pass_has_its_own_order_which_the_seed_gives(folder):
    reader, again = read(folder), read(folder)
    passes = [order(reader()) for _ in range(3)]
    assert passes == [order(again()) for _ in range(3)]
    assert all(sorted(found) == list(range(NUM)) for found in passes)
    assert passes[0] != passes[1] != passes[2]
    assert order(read(folder, seed=1)()) != passes[0]
    reader.set_epoch(1)
    assert order(reader()) == passes[1]


def test_mirroring_depends_on_seed_and_pass(folder):
    reader = read(folder)
    first, second = flips(reader()), flips(reader())
    assert first != second
    assert 0 < sum(first.values()) < NUM
    assert flips(read(folder)()) == first
    assert not any(flips(read(folder, seed=None)()).values())


@pytest.mark.parametrize("world_size", [1, 2, 3, 4, 7, 25])
def test_ranks_have_equal_slices_that_cover_all_images(folder, caplog, world_size):
    with caplog.at_level(logging.INFO):
        readers = [read(folder, rank=rank, world_size=world_size) for rank in range(world_size)]
    per_rank = -(-NUM // world_size)
    padded = per_rank * world_size - NUM
    assert {reader.num_padded for reader in readers} == {padded}
    assert ("twice" in caplog.text) == bool(padded)
    for _ in range(2):
        slices = [order(reader()) for reader in readers]
        assert {len(found) for found in slices} == {per_rank}
        counts = Counter(itertools.chain(*slices))
        assert set(counts) == set(range(NUM))
        assert sum(counts.values()) == NUM + padded


def test_a_pass_continues_without_opening_what_was_read(folder):
    expected = order(read(folder)())
    first = expected[0]
    (folder / "images" / f"class {first % 3}" / f"{first}.png").write_bytes(b"no image")
    assert order(read(folder).samples_from(6)) == expected[6:]
    with pytest.raises(ReaderEndedError):
        list(read(folder).samples_from(NUM + 1))
    images = read(folder)
    of_entry = custom_reader("train_reader", AssignedReader(images), SampleForm((3, 4, 6), 3), 3)
    num_batches = -(-NUM // 3)
    for first in range(2, num_batches + 1):
        batches = list(of_entry.batches(0, first))
        assert [n for b in batches for n in order(zip(b.images, b.labels, strict=True))] == (
            expected[3 * first :]
        )
    with pytest.raises(ReaderEndedError):
        list(of_entry.batches(0, num_batches + 1))
    plain = resumable(batch(images, 3))
    plain.load_state_dict({"epoch": 0, "position": 2})
    with pytest.raises(FormatError, match="expected an image"):
        list(plain())


def test_no_file_stays_open(folder, recwarn):
    samples = read(folder)()
    next(samples)
    samples.close()
    gc.collect()
    assert not [w for w in recwarn if issubclass(w.category, ResourceWarning)]


BAD_LINES = {
    "no label": ("images/x.png", "whole number"),
    "a label as text": ("images/x.png cat", "whole number"),
    "a label with a fraction": ("images/x.png 1.0", "whole number"),
    "a label beyond the classes": ("images/class 0/0.png 3", "from 0 to 2"),
    "a negative label": ("images/class 0/0.png -1", "from 0 to 2"),
    "a huge label": ("images/class 0/0.png 99999999999999999999", "whole number"),
    "an absolute path": ("/etc/passwd 1", "inside the folder"),
    "a path outside": ("images/../../x.png 1", "inside the folder"),
    "a path outside at once": ("../x.png 1", "inside the folder"),
    "an empty part": ("images//x.png 1", "inside the folder"),
    "a NUL": ("images/x\0.png 1", "inside the folder"),
    "a missing file": ("images/x.png 1", "there is none"),
    "a missing folder": ("pictures/0.png 1", "there is none"),
    "a line without an end": ("x" * 70000 + " 1", "at most 65536 bytes"),
}


@pytest.mark.parametrize(("line", "message"), BAD_LINES.values(), ids=BAD_LINES)
def test_a_wrong_line_is_named_before_a_pass_begins(folder, line, message):
    with (folder / "label.txt").open("a") as file:
        file.write(f"\n{line}\nimages/class 0/0.png 0\n")
    with pytest.raises(FormatError, match=rf"line {NUM + 2}: .*{message}.*label\.txt"):
        read(folder)


@pytest.mark.parametrize("text", ["", "\n \n"])
def test_an_empty_list_is_an_error(folder, text):
    (folder / "label.txt").write_text(text)
    with pytest.raises(FormatError, match="got none"):
        read(folder)


def test_a_missing_list_is_an_error(tmp_path):
    with pytest.raises(NotFoundError):
        read(tmp_path)


DAMAGES = {
    "no image": lambda path: path.write_bytes(b"hello"),
    "a cut image": lambda path: path.write_bytes(path.read_bytes()[:60]),
    "another size": lambda path: Image.fromarray(pixels(0)[:2]).save(path),
    "a folder": lambda path: (path.unlink(), path.mkdir()),
    "removed after the check": lambda path: path.unlink(),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_image_is_named_by_line_and_path(folder, damage):
    reader = read(folder, seed=None)
    damage(folder / "images" / "class 1" / "4.png")
    samples = reader()
    assert order([next(samples) for _ in range(4)]) == [0, 1, 2, 3]
    with pytest.raises(FormatError, match=r"line 5 of label\.txt: .*4\.png"):
        next(samples)


def test_paths_may_have_blanks_and_lines_windows_ends(folder):
    list_path = folder / "label.txt"
    list_path.write_bytes(list_path.read_bytes().replace(b"\n", b"\r\n"))
    assert order(read(folder, seed=None)()) == list(range(NUM))


def test_rank_and_number_of_ranks_come_from_the_environment(folder, monkeypatch):
    monkeypatch.setenv("PADDLE_TRAINER_ID", "1")
    monkeypatch.setenv("PADDLE_TRAINERS_NUM", "2")
    expected = order(read(folder, rank=1, world_size=2)())
    assert order(jpeg.arc_train(folder, 3, shape=(4, 6))()) == expected


@pytest.fixture
def distributed(tmp_path):
    """Base64 rows, distributed to two ranks."""
    rows = [codec.b64encode(png(n)) + b"\t%d\n" % (n % 3) for n in range(NUM)]
    (tmp_path / "part").write_bytes(b"".join(rows))
    (tmp_path / "file_list.txt").write_text("part\n")
    process_base64(tmp_path, "file_list.txt", 2)
    return tmp_path


def test_base64_files_are_read_by_rank_with_other_images_mirrored_in_each_pass(
    distributed, monkeypatch
):
    monkeypatch.setenv("PADDLE_TRAINERS_NUM", "2")
    found = []
    for rank in range(2):
        monkeypatch.setenv("PADDLE_TRAINER_ID", str(rank))
        reader = base64.train(distributed, 3, shape=(4, 6))
        first, second = list(reader()), list(reader())
        assert order(first) == order(second)
        assert flips(first) != flips(second)
        reader.set_epoch(0)
        assert flips(reader()) == flips(first)
        found += order(first)
    assert sorted(found) == list(range(NUM))


def test_ranks_and_base64_files_must_agree(distributed):
    with pytest.raises(ConfigError, match="list 1 files"):
        Base64Images(distributed, images=options())


def test_base64_images_of_a_test_are_not_mirrored(distributed):
    reader = Base64Images(distributed, images=options(), seed=None, world_size=2)
    assert not any(flips(reader()).values())
