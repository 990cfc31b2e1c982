"""Names that a server lists are those of files in the folder, or nothing is copied."""

import json

import pytest

from trainfeed.core.datacenters import PfsPath
from trainfeed.errors import ServiceError
from trainfeed.serving.pfs.copy import copy_places
from trainfeed.serving.pfs.copy_plan import CopyOptions, Place
from trainfeed.serving.pfs.posix import LocalTree
from trainfeed.serving.pfs.remote import ServerTree
from trainfeed.serving.server import Reply

ROOT = PfsPath("dc", "home", "alice", ())
FOLDER = {"name": "folder", "kind": "folder", "num_bytes": 0, "modified_ns": 1}


class ListingClient:
    """Connections to a server whose folder has one entry."""

    def __init__(self, **changed):
        self._entry = {**FOLDER, **changed}

    def ask(self, method, path, parameters):
        found = {"entry": FOLDER}
        if parameters["method"] == "ls":
            # The folder that is copied; folders below it are empty.
            entries = [self._entry] if parameters["path"].endswith("/folder") else []
            found = {"entries": entries, "is_complete": True}
        body = json.dumps(found).encode()
        return Reply(f"{method} {path}", 200, {}, body, len(body))


def copied(tmp_path, **changed):
    (tmp_path / "a/b/target").mkdir(parents=True)
    source = Place(ServerTree(ListingClient(**changed), ROOT), ("folder",))
    target = Place(LocalTree(tmp_path), ("a", "b", "target"))
    return list(copy_places([source], target, CopyOptions(is_recursive=True)))


def folders(tmp_path):
    return sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*"))


@pytest.mark.parametrize("name", ["../../escaped", "/escaped", "..", ".", "", "a\0b", "a/b"])
def test_a_listed_name_that_leads_out_of_its_folder_makes_nothing(tmp_path, name):
    (outcome,) = copied(tmp_path, name=name)
    assert isinstance(outcome.error, ServiceError)
    assert "expected the name of one file in a listing of the server" in str(outcome.error)
    assert not [each for each in folders(tmp_path) if "escaped" in each]


def test_a_plain_name_is_copied(tmp_path):
    copied(tmp_path, name="..plain")
    assert "a/b/target/folder/..plain" in folders(tmp_path)


@pytest.mark.parametrize("changed", [{"kind": "door"}, {"name": 7}, {"num_bytes": None}])
def test_an_entry_of_another_form_is_one_error(changed):
    with pytest.raises(ServiceError, match="expected entries with name"):
        ServerTree(ListingClient(**changed), ROOT).entries(("folder",))
