"""Text from outside is safe to show: passwords in addresses are replaced, paths stay."""

import pytest

from trainfeed.core.printable_text import without_secrets


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
