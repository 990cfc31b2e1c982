"""``trainfeed public``: the listing, builds, and lines that run as they stand."""

import json
import sys

import pytest

from tests.unit.cli.conftest import cli
from tests.unit.pipeline.conftest import project
from tests.unit.publicsets.conftest import mnist, no_public_folder, root
from trainfeed.compat.paddle.dataset import common

__all__ = ["cli", "mnist", "no_public_folder", "project", "root"]


def test_the_listing_without_a_root_has_the_sets_and_says_that_no_root_is_known(cli):
    status, output, _ = cli("public", "ls", "--json")
    rows = {row["name"]: row for row in json.loads(output)}
    assert status == 0
    assert sorted(rows) == ["bow", "digits", "flights", "mnist", "synthetic_imagenet"]
    assert {row["state"] for row in rows.values()} == {"not built"}
    assert {name: row["kind"] for name, row in rows.items() if row["kind"] != "real"} == {
        "synthetic_imagenet": "synthetic"
    }
    assert "no publication root of public sets is known here" in "".join(cli("public", "ls")[1:])


def test_build_list_and_use_a_set(cli, mnist, root, monkeypatch):
    status, output, _ = cli(
        "public", "build", "mnist", "--from", str(mnist[0]), "--root", str(root), "--json"
    )
    assert (status, json.loads(output)["verdict"]) == (0, "built")
    monkeypatch.setenv("TRAINFEED_PUBLIC", str(root.parent))
    (row,) = [r for r in json.loads(cli("public", "ls", "--json")[1]) if r["name"] == "mnist"]
    assert (row["state"], row["version"], row["samples"]) == ("published", "1998-01-01/g0001", 70)
    assert (row["licence"], row["origin"]) == ("CC-BY-SA-3.0", "IDX files of MNIST")
    told = json.loads(cli("public", "use", "mnist", "--json")[1])
    assert (told["state"], told["splits"]) == ("verified", {"test": 10, "train": 60})
    assert told["setting"] is None
    shown = cli("public", "use", "mnist")[1]
    assert 'open_public("mnist", split="train")' in shown


def test_the_lines_that_use_shows_run_as_they_stand(cli, mnist, root, monkeypatch):
    cli("public", "build", "mnist", "--from", str(mnist[0]), "--root", str(root))
    told = json.loads(cli("public", "use", "mnist", "--root", str(root), "--json")[1])
    assert told["setting"] == f"export TRAINFEED_PUBLIC={root.parent}"
    monkeypatch.setenv("TRAINFEED_PUBLIC", str(root.parent))
    monkeypatch.setattr(common, "DATA_HOME", str(root / "no_files"))
    assert len(told["examples"]) == 4
    for lines in told["examples"].values():
        names = {}
        exec("\n".join(lines).replace("…", "break"), names)
        assert {"sample", "batches", "data"} & names.keys()


def test_a_set_that_is_not_there_and_a_damaged_one_have_their_own_status(cli, mnist, root):
    status, _, message = cli("public", "use", "mnist", "--root", str(root))
    assert status == 1
    assert "trainfeed public build mnist" in message.replace("\n", " ").replace("  ", " ")
    cli("public", "build", "mnist", "--from", str(mnist[0]), "--root", str(root))
    shard = next(root.glob("mnist/versions/*/g0001/mnist-train-*"))
    shard.chmod(0o644)
    data = bytearray(shard.read_bytes())
    data[-1] ^= 1
    shard.write_bytes(data)
    assert cli("public", "use", "mnist", "--root", str(root))[0] == 3


def test_a_damaged_set_hides_no_other_in_the_listing(cli, mnist, root):
    cli("public", "build", "mnist", "--from", str(mnist[0]), "--root", str(root))
    cli("public", "build", "bow", "--root", str(root))
    manifest = next(root.glob("mnist/versions/*/g0001/MANIFEST.json"))
    manifest.chmod(0o644)
    manifest.write_bytes(manifest.read_bytes() + b" ")
    status, output, message = cli("public", "ls", "--root", str(root), "--json")
    states = {row["name"]: row["state"] for row in json.loads(output)}
    assert (status, states["mnist"], states["bow"]) == (3, "damaged", "published")
    assert "mnist is damaged: ChecksumError" in " ".join(message.split())


def test_missing_originals_are_one_error_with_the_command(cli, root, tmp_path):
    status, output, message = cli(
        "public", "build", "flights", "--from", str(tmp_path), "--root", str(root)
    )
    assert (status, output) == (2, "")
    assert "-r requirements/examples.txt" in " ".join(message.split())
    assert [path.name for path in root.iterdir()] == ["TRAINFEED.json"]


def test_a_build_needs_a_folder_that_may_be_written(cli, mnist):
    status, _, message = cli("public", "build", "mnist", "--from", str(mnist[0]))
    assert status == 2
    assert "TRAINFEED_PUBLIC" in message


@pytest.mark.parametrize("command", ["ls", "build", "use"])
def test_every_command_has_an_example(cli, command):
    assert f"Example: {'trainfeed'} public {command}" in cli("public", command, "--help")[1]
    assert sys.argv[0] == "trainfeed"
