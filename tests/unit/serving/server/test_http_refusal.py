"""Texts of refusals: nothing of the machine of the server."""

import pytest

from trainfeed.errors import ConflictError, StorageError
from trainfeed.serving.server.listener import caller_address
from trainfeed.serving.server.refusals import public_text, refusal_of


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (
            "cannot read /srv/tokens/tokens.txt: denied",
            "cannot read (a path of the server): denied",
        ),
        ("got '/mnt/x y/z'", "got '(a path of the server) y/z'"),
        ("/pfs/dc1/home/anna/x: not there", "/pfs/dc1/home/anna/x: not there"),
        ("pfs://home/x is a folder", "pfs://home/x is a folder"),
        ("1 MiB/s and/or https://host/a/b", "1 MiB/s and/or https://host/a/b"),
    ],
)
def test_paths_of_the_server_are_no_part_of_a_text(text, shown):
    assert public_text(text) == shown


def test_the_text_of_an_error_of_the_server_is_for_its_log():
    refusal = refusal_of(StorageError("cannot write /srv/master.sqlite"))
    assert refusal.status_code in (500, 503)
    assert "/srv" not in str(refusal.body("1"))
    assert "(a path" in refusal_of(ConflictError("the file /srv/x is of other data")).got


@pytest.mark.parametrize(
    ("host", "counted"),
    [
        ("10.1.2.3", "10.1.2.3"),
        ("::ffff:10.1.2.3", "10.1.2.3"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("testclient", "testclient"),
    ],
)
def test_what_one_host_can_have_counts_as_one_address(host, counted):
    assert caller_address(host) == counted
