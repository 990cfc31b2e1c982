"""Names of users: folder, key and part of caps at once, so the grammar is narrow."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainfeed.errors import ConfigError
from trainfeed.serving.pfs.ceph import Layout
from trainfeed.serving.pfs.users import require_user_name


@pytest.mark.parametrize("name", ["a", "alice", "alice-2", "a" * 63, "x9"])
def test_a_plain_name_is_taken(name):
    assert require_user_name(name) == name


@pytest.mark.parametrize(
    "name",
    [
        *("", "Alice", "4711", "-a", "a-", "a.b", "a_b", "a b", "a" * 64, "älice"),
        *("..", ".", "a/b", "../a", "a/../b", "/etc", "a\0", "a\n", "a\nb", "*", "a*"),
        *("alice, allow *", "alice path=/", "'", '"', "%2e%2e", "client.admin"),
    ],
)
def test_other_texts_are_refused(name):
    with pytest.raises(ConfigError, match="nothing was changed") as refused:
        require_user_name(name)
    assert "\n" not in str(refused.value)
    assert "\0" not in str(refused.value)


@pytest.mark.parametrize(
    "name", ["admin", "mds", "public", "rgw", "bootstrap-osd", "nfs-x", "root"]
)
def test_names_that_ceph_uses_are_refused(name):
    with pytest.raises(ConfigError, match="that Ceph does not use itself"):
        require_user_name(name)


@given(st.text(max_size=70))
def test_a_name_that_is_taken_stays_one_word_in_paths_and_caps(text):
    try:
        name = require_user_name(text)
    except ConfigError:
        return
    assert Layout("cephfs", "dc").home(name) == f"/pfs/dc/home/{text}"
    assert not set(text) & set(" ,=*'\"/.\\\n\0")


def test_every_home_has_another_namespace_also_for_the_same_name():
    layout = Layout("cephfs", "dc1")
    first, second = layout.new_namespace("alice"), layout.new_namespace("alice")
    assert first != second
    assert layout.is_namespace("alice", first)
    assert layout.is_namespace("alice", second)


@pytest.mark.parametrize(
    "namespace",
    [
        "",
        "pfs/dc1/public",
        "pfs/dc1/home/alice",
        "pfs/dc1/home/alice.1234567",
        "pfs/dc1/home/alice.12345678x",
        "pfs/dc1/home/alice2.12345678",
        "pfs/dc2/home/alice.12345678",
        "pfs/dc1/home/bob.12345678",
        "pfs/dc1/home/alice.12345678\n",
    ],
)
def test_other_namespaces_are_none_of_a_users_own(namespace):
    assert not Layout("cephfs", "dc1").is_namespace("alice", namespace)
