"""The note of a removal of uploads counts for its own interval alone."""

import pytest

from tests.support.roots import reseal
from trainfeed.errors import FormatError
from trainfeed.uploads import UploadsRemoval, write_uploads_removal
from trainfeed.uploads.removal import removal_of_uploads
from trainfeed.versions import DatasetFolder

DAYS = ("2026-01-01", "2026-01-02")
NOTE = UploadsRemoval(
    (1, 3), at="2026-03-08T00:00:00Z", who="ada", account="ada", why="keep_days: 30"
)


@pytest.fixture
def folder(tmp_path):
    return DatasetFolder(tmp_path, "views")


def test_a_note_is_read_as_written_also_one_of_before(folder):
    assert removal_of_uploads(folder, DAYS[0]) is None
    write_uploads_removal(folder, DAYS[0], NOTE)
    assert removal_of_uploads(folder, DAYS[0]) == NOTE
    reseal(folder.uploads_removal(DAYS[0]), dataset=None, interval=None)
    assert removal_of_uploads(folder, DAYS[0]) == NOTE


def test_a_note_of_another_interval_or_data_set_is_refused(folder, tmp_path):
    other = DatasetFolder(tmp_path, "clicks")
    for each, day in ((folder, DAYS[0]), (folder, DAYS[1]), (other, DAYS[0])):
        write_uploads_removal(each, day, NOTE)
    path = folder.uploads_removal(DAYS[0])
    for each in (folder.uploads_removal(DAYS[1]), other.uploads_removal(DAYS[0])):
        path.write_bytes(each.read_bytes())
        with pytest.raises(FormatError, match="removal of uploads"):
            removal_of_uploads(folder, DAYS[0])


@pytest.mark.parametrize("change", [{"at": "soon"}, {"receipts": ["1"]}, {"who": None}])
def test_another_value_is_refused(folder, change):
    write_uploads_removal(folder, DAYS[0], NOTE)
    reseal(folder.uploads_removal(DAYS[0]), **change)
    with pytest.raises(FormatError, match="removal of uploads"):
        removal_of_uploads(folder, DAYS[0])
