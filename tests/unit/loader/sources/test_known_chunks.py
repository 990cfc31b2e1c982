"""When a chunk is verified, for RecordIO and TFRecord alike."""

import pytest

from trainfeed.loader.chunks import Verified, Verify


@pytest.mark.parametrize(
    ("verify", "due", "new"),
    [
        (Verify.ALWAYS, [True, True], [True, True]),
        (Verify.FIRST, [True, False], [True, False]),
        # A mapped chunk is decoded once, also where no checksum is compared.
        (Verify.NEVER, [False, False], [True, False]),
    ],
)
def test_a_chunk_is_due_as_often_as_asked_for_and_new_until_it_was_read(verify, due, new):
    verified = Verified(verify, 2)
    found = []
    for _ in range(2):
        found.append((verified.is_due(1), verified.is_new(1)))
        verified.add(1)
    assert found == list(zip(due, new, strict=True))
    assert verified.is_new(0)
    assert verified.always is (verify is Verify.ALWAYS)
