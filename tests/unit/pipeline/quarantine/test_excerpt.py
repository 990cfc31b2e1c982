"""Excerpts of records in messages: short, on one line, printable, without secrets."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainfeed.pipeline.quarantine import excerpt, plain

MOST = 40
# What is added behind what is shown: an ellipsis and a count.
MARK = 60


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        (None, "null"),
        (b"", ""),
        (b"not json", "not json"),
        ("Zürich".encode(), "Zürich"),
        (b"two\nlines\tand a bell\x07", r"two\nlines\tand a bell\x07"),
        (b"\x1b[31mred", r"\x1b[31mred"),
        (b"\xff\xfe", "0xfffe (2 bytes, not text)"),
        (b"a\0b", "0x610062 (3 bytes, not text)"),
        (
            "cut off in the middle of a character: ü".encode()[:-1],
            "cut off in the middle of a character: ",
        ),
    ],
)
def test_text_is_shown_as_text_and_other_bytes_in_hexadecimal(data, shown):
    assert excerpt(data) == shown


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ('{"user": 1, "password": "hunter2 and more", "label": 3}', "hunter2"),
        (r'{"wrapped": "{\"api_key\": \"hunter2\"}"}', "hunter2"),
        ("GET /?q=1&access_token=hunter2&x=2", "hunter2"),
        ("Authorization: Bearer hunter2", "hunter2"),
        ("aws_secret_access_key = hunter2", "hunter2"),
        ("webhdfs://somebody:hunter2@namenode/x", "hunter2"),
        ("'client-secret': 'hunter2", "hunter2"),
    ],
)
def test_values_that_look_like_secrets_are_replaced(text, secret):
    shown = plain(text)
    assert secret not in shown
    assert "***" in shown


def test_a_secret_that_ends_behind_what_is_shown_is_replaced_too():
    assert "x" * 5 not in plain('{"token": "' + "x" * 10_000 + '"}')


def test_tokens_of_a_text_are_no_secret():
    assert plain('{"tokens": [1, 2], "tokenized": true}') == '{"tokens": [1, 2], "tokenized": true}'


def test_what_is_cut_says_how_long_it_is():
    assert plain("y" * 1000, 10) == "yyyyyyyyyy… (1000 characters)"
    assert excerpt(b"\xff" * 1000, 10) == "0xffffffffff… (1000 bytes, not text)"


@given(st.binary(max_size=2_000))
def test_whatever_a_record_holds_is_one_short_printable_line(data):
    shown = excerpt(data, MOST)
    assert shown.isprintable()
    assert len(shown) <= MOST + MARK


@given(st.text(max_size=2_000))
def test_whatever_a_message_says_is_one_short_printable_line(text):
    shown = plain(text, MOST)
    assert shown.isprintable()
    assert len(shown) <= MOST + MARK
