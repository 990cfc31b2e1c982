"""Text from outside is safe to show: passwords in addresses are replaced, paths stay."""

import pytest

from trainfeed.core.printable_text import url_as_shown, without_secrets


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("at webhdfs://me:canary@host:9870/x", "at webhdfs://me:***@host:9870/x"),
        ("at webhdfs://me:ca/na/ry@host:9870/x", "at webhdfs://me:***@host:9870/x"),
        ("at http://:ca/nary@host", "at http://:***@host"),
        ("http://host:8020/user@home/x", "http://host:8020/user@home/x"),
        ("hdfs://me@host:8020/x", "hdfs://me@host:8020/x"),
    ],
)
def test_a_password_in_an_address_is_replaced_also_with_slashes(text, shown):
    assert without_secrets(text) == shown


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://h/db?user=me&sslpassword=canary", "postgresql://h/db"),
        ("postgresql://me:ca?nary@h/db?x=1", "postgresql://me:***@h/db"),
        ("sqlite:////lake/a@b/catalog.db", "sqlite:////lake/a@b/catalog.db"),
    ],
)
def test_a_url_is_shown_without_password_and_query(url, shown):
    assert url_as_shown(url) == shown
