"""The blocks of docs/authors/snippets.md, taken out of the file, run, and looked at."""

import inspect
import itertools
import re
import struct
from pathlib import Path

import numpy as np
import pytest

from trainfeed.compat.paddle.dataset import common
from trainfeed.compat.paddle.reader import ComposeNotAligned
from trainfeed.decorators import check_batch, strict_batches
from trainfeed.errors import SampleShapeError

DOCUMENT = (Path(__file__).parents[3] / "docs" / "authors" / "snippets.md").read_text()
BLOCKS = dict(
    re.findall(r"^### (\d{3}-\d{2})\n\n```python\n(.*?)^```$", DOCUMENT, re.MULTILINE | re.DOTALL)
)
ROWS = re.findall(r"^\| (\d{3}-\d{2}) \|", DOCUMENT, re.MULTILINE)
NUM_IMAGES = 1024


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Digits that can be learned, as the files of MNIST, and as the raw files of 001-13."""
    labels = (np.arange(NUM_IMAGES) % 10).astype(np.uint8)
    images = np.random.default_rng(0).integers(0, 100, (NUM_IMAGES, 28, 28)).astype(np.uint8)
    images[np.arange(NUM_IMAGES), labels, :] = 255
    folder = tmp_path / "home" / "mnist"
    folder.mkdir(parents=True)
    for name, array in (("images-idx3", images), ("labels-idx1", labels)):
        header = struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape)
        (folder / f"train-{name}-ubyte").write_bytes(header + array.tobytes())
    (tmp_path / "image_file").write_bytes(images.tobytes())
    (tmp_path / "label_file").write_bytes(labels.tobytes())
    monkeypatch.setattr(common, "DATA_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return images, labels


def run(document, files=None):
    """Run a document's blocks in one namespace, and after each the check that has its name."""
    namespace = {}
    for name, code in BLOCKS.items():
        if name.startswith(document):
            exec(compile(code, name, "exec"), namespace)
            check = globals().get(f"check_{name.replace('-', '_')}")
            if check is not None:
                check(namespace, files)


def test_the_table_and_the_blocks_name_the_same_snippets():
    assert list(BLOCKS) == ROWS
    assert [sum(name.startswith(d) for name in ROWS) for d in ("001", "002", "000")] == [14, 6, 5]


def test_the_code_of_the_document_on_readers(files):
    run("001", files)


def test_the_code_of_the_document_on_loading():
    run("002")


def test_the_code_of_the_document_on_storage(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run("000")


def check_001_01(names, _):
    assert list(names["iterable"]) == [0, 1, 2]


def check_001_02(names, _):
    reader = names["reader_creator_random_image"](4, 5)
    assert [image.shape for image in itertools.islice(reader(), 3)] == [(20,)] * 3


def check_001_03(names, _):
    image, label = next(names["reader_creator_random_image_and_label"](2, 2, 7)())
    assert (image.shape, label) == ((4,), 7)


def check_001_04(names, _):
    check_batch(names["three_columns"])
    check_batch(names["one_column"])


def check_001_05(names, _):
    with pytest.raises(SampleShapeError, match="expected a tuple, got list"):
        check_batch(names["ambiguous"])


def check_001_06(names, files):
    images, labels = files
    sizes = [len(items) for items in names["mnist_train_batch_reader"]()]
    assert sizes == [128] * (NUM_IMAGES // 128)
    image, label = next(names["mnist_train_batch_reader"]())[0]
    assert np.array_equal(image, scaled(images[0]))
    assert label == labels[0]


def check_001_07(names, _):
    reader = strict_batches(names["mnist_random_image_batch_reader"])
    assert [len(items) for items in itertools.islice(reader(), 2)] == [128, 128]


def check_001_08(names, _):
    losses = names["losses"]
    assert len(losses) == 10 * NUM_IMAGES / 128
    assert losses[0] == pytest.approx(np.log(10))
    assert losses[-1] < losses[0] / 4


def check_001_09(names, _):
    assert len(list(names["buffered_reader"]())) == NUM_IMAGES


def check_001_10(names, _):
    drawn = names["batches"]()
    for _ in range(NUM_IMAGES // 128):
        shapes = {name: column.shape for name, column in next(drawn).items()}
        assert shapes == {
            "true_image": (128, 784),
            "fake_image": (128, 400),
            "true_label": (128,),
            "false_label": (128,),
        }
    with pytest.raises(ComposeNotAligned, match=f"after {NUM_IMAGES} samples"):
        next(drawn)


def check_001_11(names, files):
    _, labels = files
    got = [int(label) for _, label in names["reader"]()]
    assert got != labels.tolist()
    assert sorted(got[:512]) == sorted(labels[:512].tolist())


def check_001_12(names, _):
    columns = next(names["twice"]())
    assert np.array_equal(columns["image_a"], columns["image_b"])
    columns = next(names["skipped"]())
    assert list(columns) == ["image_a", "label"]
    assert columns["label"].all()


def check_001_13(names, files):
    images, labels = files
    got = list(names["reader"]())
    assert len(got) == NUM_IMAGES
    assert np.array_equal(got[0][0], scaled(images[0]))
    assert [label for _, label in got] == labels.tolist()


def check_002_03(names, _):
    sizes = [[len(image) for image, _ in names[f"data_loader{i}"]] for i in (1, 2, 3)]
    assert sizes == [[32] * 5, [16] * 10, [16] * 10]
    for i in (1, 2, 3):
        image, label = next(iter(names[f"data_loader{i}"]()))
        assert (image.shape[1:], image.dtype) == ((784,), np.float32)
        assert (label.shape[1:], label.dtype) == ((1,), np.int64)
        assert not label.any()


def check_002_05(names, _):
    assert len(names["losses"]) == 10
    assert names["losses"][-1] < names["losses"][0] / 2


def check_002_06(names, _):
    loader = names["data_loader"].set_batch_generator(names["batch_generator_creator"]())
    assert [image.shape for image, _ in loader] == [(16, 784)] * 10


def check_000_01(names, _):
    expected = ["output_path", "reader", "num_shards", "name_prefix"]
    assert list(inspect.signature(names["convert"]).parameters) == expected


def check_000_02(names, _):
    made = list(names["samples"]())
    names["convert"](Path("three"), lambda: iter(made), 1, "three")
    from trainfeed.compat import paddle

    got = list(paddle.reader.creator.recordio("three/three-*-of-*")())
    assert sorted(map(repr, got)) == sorted(map(repr, made))


def check_000_04(_, __):
    shards = sorted(path.name for path in Path().glob("random_images-*-of-*"))
    assert shards == [f"random_images-{i:05d}-of-00099" for i in range(100)]


def check_000_05(names, _):
    got = [sample for items in names["batch_reader"]() for sample in items]
    assert len(got) == 1000
    assert {(type(s), s[0].dtype, s[0].shape, s[1]) for s in got} == {
        (tuple, np.dtype(float), (784,), 0)
    }


def scaled(image):
    return image.ravel().astype(np.float32) / 255.0 * 2.0 - 1.0


@pytest.mark.parametrize("name", ["layer", "train", "fluid.Executor", "fluid.dygraph.Layer"])
def test_what_needs_paddle_says_so(name):
    from trainfeed.compat import paddle

    owner = paddle
    *path, last = name.split(".")
    for part in path:
        owner = getattr(owner, part)
    with pytest.raises(AttributeError, match="builds no network"):
        getattr(owner, last)
