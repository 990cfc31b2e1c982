"""``base64_reader``: the images of one rank as arrays."""

from __future__ import annotations

import base64
import builtins
import io

import numpy as np
import pytest
from PIL import Image

from trainfeed.conversion import ImageOptions, base64_reader, process_base64
from trainfeed.errors import ConfigError, FormatError


def png(pixels):
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def pixels(number):
    rng = np.random.default_rng(number)
    return rng.integers(0, 256, (4, 6, 3), np.uint8)


@pytest.fixture
def write(tmp_path):
    """Make a processed folder of rows."""

    def make(*rows, nranks=1):
        lines = [b"%s\t%d\n" % (base64.b64encode(data), label) for data, label in rows]
        (tmp_path / "part").write_bytes(b"".join(lines))
        (tmp_path / "file_list.txt").write_text("part\n")
        process_base64(tmp_path, "file_list.txt", nranks)
        return tmp_path

    return make


def test_images_become_normalised_floats_with_the_channel_first(write):
    folder = write(*((png(pixels(n)), n) for n in range(5)))
    samples = list(base64_reader(folder)())
    assert sorted(label for _, label in samples) == list(range(5))
    for image, label in samples:
        assert (image.dtype, image.shape, type(label)) == (np.float32, (3, 4, 6), int)
        assert image.flags.c_contiguous
        expected = (pixels(label).astype(np.float64) - 127.5) / 128
        np.testing.assert_array_equal(image, expected.transpose(2, 0, 1).astype(np.float32))


def test_ranks_read_different_files_and_can_be_read_again(write):
    folder = write(*((png(pixels(n)), n) for n in range(6)), nranks=2)
    readers = [base64_reader(folder, rank=rank, world_size=2) for rank in range(2)]
    labels = [[label for _, label in reader()] for reader in readers]
    assert sorted(labels[0] + labels[1]) == list(range(6))
    assert [label for _, label in readers[0]()] == labels[0]


def test_grey_and_palette_images_have_three_channels(write):
    grey = Image.fromarray(pixels(1)[..., 0])
    palette = Image.fromarray(pixels(1)).convert("P")
    rows = []
    for number, image in enumerate((grey, palette)):
        file = io.BytesIO()
        image.save(file, "PNG")
        rows.append((file.getvalue(), number))
    assert [image.shape for image, _ in base64_reader(write(*rows))()] == [(3, 4, 6)] * 2


def test_mirrored_images_are_chosen_by_the_seed(write):
    folder = write(*((png(pixels(n)), n) for n in range(40)))
    plain = {label: image for image, label in base64_reader(folder)()}

    def mirrored(seed):
        found = set()
        for image, label in base64_reader(folder, images=ImageOptions(flip_seed=seed))():
            if not np.array_equal(image, plain[label]):
                np.testing.assert_array_equal(image[:, :, ::-1], plain[label])
                found.add(label)
        return found

    assert mirrored(1) == mirrored(1) != mirrored(2)
    assert 8 < len(mirrored(1)) < 32


@pytest.mark.parametrize(("rank", "world_size"), [(0, 1), (0, 3), (2, 2), (-1, 2)])
def test_ranks_and_files_must_agree(write, rank, world_size):
    folder = write((png(pixels(1)), 1), nranks=2)
    with pytest.raises(ConfigError):
        base64_reader(folder, rank=rank, world_size=world_size)


def cut_at_a_line(data):
    return b"".join(data.splitlines(keepends=True)[:-1])


@pytest.mark.parametrize("change", [cut_at_a_line, lambda _: b"", lambda data: data * 2])
def test_a_file_of_another_size_is_an_error_before_its_first_image(write, change):
    folder = write(*((png(pixels(n)), n) for n in range(6)), nranks=2)
    path = folder / "base64_rank_1"
    path.write_bytes(change(path.read_bytes()))
    reader = base64_reader(folder, rank=1, world_size=2)
    with pytest.raises(FormatError, match="process-base64 again") as caught:
        next(reader())
    assert caught.value.path == str(path)
    assert len(list(base64_reader(folder, rank=0, world_size=2)())) == 3


def test_sizes_that_were_changed_are_not_believed(write):
    folder = write(*((png(pixels(n)), n) for n in range(3)))
    path, sizes = folder / "base64_rank_0", folder / "base64_sizes.json"
    data = cut_at_a_line(path.read_bytes())
    old, new = (f'"base64_rank_0":{size}'.encode() for size in (path.stat().st_size, len(data)))
    assert old in sizes.read_bytes()
    sizes.write_bytes(sizes.read_bytes().replace(old, new))
    path.write_bytes(data)
    with pytest.raises(FormatError, match="sizes"):
        next(base64_reader(folder)())
    # Files that were made before have no sizes beside them.
    sizes.unlink()
    assert len(list(base64_reader(folder)())) == 2


def test_sizes_are_those_of_the_last_run(write):
    for count in (3, 7):
        folder = write(*((png(pixels(n)), n) for n in range(count)))
        assert len(list(base64_reader(folder)())) == count


def test_a_list_of_other_files_is_refused(write):
    folder = write((png(pixels(1)), 1))
    (folder / "file_list.txt").write_text("part\n")
    with pytest.raises(ConfigError, match="process-base64 --nranks 1"):
        base64_reader(folder)


REFUSED = {
    "no image": (b"hello", ImageOptions()),
    "a cut image": (png(pixels(1))[:60], ImageOptions()),
    "another shape": (png(pixels(1)), ImageOptions(shape=(6, 4))),
    "a label beyond the classes": (png(pixels(1)), ImageOptions(num_classes=1)),
    "too many pixels": (png(pixels(1)), ImageOptions(max_pixels=23)),
    "a format for documents": (b"%!PS-Adobe-3.0 EPSF-3.0\n", ImageOptions()),
}


@pytest.mark.parametrize(("data", "options"), REFUSED.values(), ids=REFUSED)
def test_a_row_that_is_no_such_image_is_an_error_with_its_place(write, data, options):
    folder = write((data, 1))
    with pytest.raises(FormatError, match="line 1: ") as caught:
        list(base64_reader(folder, images=options)())
    assert caught.value.path == str(folder / "base64_rank_0")
    assert caught.value.offset_bytes == 0


def test_a_small_file_that_announces_a_huge_image_is_refused_before_it_is_decoded(write):
    file = io.BytesIO()
    Image.new("1", (20_000, 20_000)).save(file, "PNG")
    with pytest.raises(FormatError, match="pixels"):
        list(base64_reader(write((file.getvalue(), 1)))())


def test_without_pillow_the_error_says_what_to_install(write, monkeypatch):
    folder = write((png(pixels(1)), 1))
    real = builtins.__import__

    def missing(name, *rest):
        if name == "PIL":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(ConfigError, match=r"trainfeed\[images\]"):
        base64_reader(folder)
