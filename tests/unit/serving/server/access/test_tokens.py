"""The token file: its form, its mode, and the lines that ``trainfeed token new`` adds."""

import hashlib
from datetime import UTC, datetime

import pytest
from typer.testing import CliRunner

from trainfeed.cli._app import app
from trainfeed.errors import ConfigError
from trainfeed.serving.server import Access, TokenFile, new_token

DIGEST = hashlib.sha256(b"secret").hexdigest()


@pytest.fixture
def tokens(tmp_path):
    path = tmp_path / "tokens.txt"
    path.touch(mode=0o600)
    return path


def test_a_new_token_is_known_by_its_digest_alone(tokens):
    token = new_token(tokens, "anna", scopes="train,read", expires=datetime(2030, 1, 1, tzinfo=UTC))
    assert token not in tokens.read_text()
    caller = TokenFile(tokens).caller(token, None)
    assert (caller.name, caller.scopes) == ("anna", {"train", "read"})
    assert caller.may("train")
    assert not caller.may("metrics")
    assert caller.is_expired(datetime(2030, 1, 1, tzinfo=UTC))
    assert not caller.is_expired(datetime(2029, 12, 31, tzinfo=UTC))


def test_a_name_may_have_two_tokens_while_one_is_replaced(tokens):
    both = [new_token(tokens, "anna", scopes="*") for _ in range(2)]
    assert both[0] != both[1]
    assert {TokenFile(tokens).caller(each, None).name for each in both} == {"anna"}


def test_a_last_line_without_its_end_is_completed_first(tokens):
    tokens.write_text(f"# people\n\nbert {DIGEST}")
    token = new_token(tokens, "anna", scopes="*")
    assert TokenFile(tokens).caller(token, None).name == "anna"
    assert TokenFile(tokens).caller("secret", None).name == "bert"


@pytest.mark.parametrize(
    "line",
    [
        "anna",
        "anna secret",
        f"anna {DIGEST.upper()}",
        f"anna {DIGEST} Train",
        f"anna {DIGEST} train tomorrow",
        f"anna {DIGEST} train 2030-01-01 more",
        f"-anna {DIGEST}",
    ],
)
def test_a_wrong_line_is_named_without_its_words(tokens, line):
    tokens.write_text(f"# one\n{line}\n")
    with pytest.raises(ConfigError, match="line 2") as error:
        TokenFile(tokens)
    assert DIGEST not in str(error.value)
    assert "secret" not in str(error.value)
    with pytest.raises(ConfigError):
        new_token(tokens, "bert", scopes="*")
    assert tokens.read_text() == f"# one\n{line}\n"


def test_a_file_without_a_token_is_refused(tokens):
    tokens.write_text("# nobody yet\n")
    with pytest.raises(ConfigError, match="trainfeed token new"):
        TokenFile(tokens)


@pytest.mark.parametrize("mode", [0o644, 0o660, 0o604, 0o602])
def test_a_file_that_others_can_open_is_refused(tokens, mode):
    token = new_token(tokens, "anna", scopes="*")
    tokens.chmod(mode)
    with pytest.raises(ConfigError, match="chmod 600"):
        TokenFile(tokens)
    tokens.chmod(0o640)
    assert TokenFile(tokens).caller(token, None)


def test_names_and_scopes_that_no_line_can_have_change_nothing(tokens):
    new_token(tokens, "anna", scopes="*")
    before = tokens.read_bytes()
    for name, scopes in (
        ("a b", "*"),
        ("", "*"),
        ("bert", "A B"),
        ("bert", "x y"),
        ("bert", ""),
        ("bert", "read 2099-01-01"),
    ):
        with pytest.raises(ConfigError):
            new_token(tokens, name, scopes=scopes)
    assert tokens.read_bytes() == before


def test_a_certificate_needs_a_line_of_its_own(tokens):
    tokens.write_text(f"anna {DIGEST}\nbert certificate read\n")
    found = TokenFile(tokens)
    assert found.caller(None, "bert").scopes == {"read"}
    assert found.caller(None, "anna") is None
    assert found.caller(None, None) is None
    assert found.caller("certificate", None) is None
    assert found.caller("wrong", "bert") is None


@pytest.mark.parametrize(("proof", "shown"), [("certificate", None), (DIGEST, "secret")])
@pytest.mark.parametrize("order", [1, -1])
def test_of_two_lines_of_one_caller_the_one_that_has_not_expired_counts(
    tokens, proof, shown, order
):
    lines = [f"bert {proof} read 2020-01-01", f"bert {proof} train 2099-01-01"]
    tokens.write_text("\n".join([*lines[::order], "anna certificate", ""]))
    found = TokenFile(tokens).caller(shown, None if shown else "bert")
    assert found.scopes == {"train"}
    tokens.write_text(lines[0])
    assert TokenFile(tokens).caller(shown, None if shown else "bert").scopes == {"read"}


def test_the_command_prints_a_token_once(tokens):
    arguments = ["token", "new", "anna", "--tokens", str(tokens), "--scopes", "read"]
    result = CliRunner().invoke(app, [*arguments, "--expires", "2099-01-31"])
    assert result.exit_code == 0
    found = TokenFile(tokens).caller(result.stdout.strip(), None)
    assert (found.expires.year, found.scopes) == (2099, {"read"})


def test_the_command_asks_for_scopes(tokens):
    before = tokens.read_bytes() if tokens.exists() else None
    result = CliRunner().invoke(app, ["token", "new", "anna", "--tokens", str(tokens)])
    assert result.exit_code == 2
    assert (tokens.read_bytes() if tokens.exists() else None) == before


def test_a_line_without_scopes_opens_every_route_and_the_log_warns_of_it(tokens, caplog):
    tokens.write_text(f"anna {DIGEST}\nbert certificate read\ncarla certificate *\n")
    found = TokenFile(tokens)
    found.warn()
    assert found.caller("secret", None).may("anything")
    (warning,) = [each for each in caplog.records if each.levelname == "WARNING"]
    assert "anna" in warning.getMessage()
    assert "bert" not in warning.getMessage()
    assert "carla" not in warning.getMessage()
    tokens.write_text(f"dora {DIGEST}\n")
    found.caller("secret", None)
    assert "dora" in caplog.records[-1].getMessage()


def test_a_wrong_file_is_read_and_logged_once_until_it_changes(tokens, caplog, monkeypatch):
    tokens.write_text(f"anna {DIGEST} read\n")
    found, reads = TokenFile(tokens), []
    monkeypatch.setattr(
        "trainfeed.serving.server.access.read_private",
        lambda path, *_, **__: reads.append(path) or path.read_bytes(),
    )
    tokens.write_text("half a li")
    for _ in range(5):
        assert not found.is_usable()
        with pytest.raises(ConfigError):
            found.caller("secret", None)
    assert len(reads) == 1
    assert len([each for each in caplog.records if each.levelname == "ERROR"]) == 1
    tokens.write_text(f"anna {DIGEST} read,train\n")
    assert found.is_usable()
    assert found.caller("secret", None).scopes == {"read", "train"}


def test_a_client_finds_its_token_by_the_environment(tmp_path, monkeypatch):
    path = tmp_path / "token.txt"
    path.touch(mode=0o600)
    path.write_text("abc\n")
    assert Access().token() is None
    monkeypatch.setenv("TRAINFEED_TOKEN_FILE", str(path))
    assert Access().token() == "abc"
    path.write_text("abc def")
    with pytest.raises(ConfigError, match="expected one token"):
        Access().token()
    path.chmod(0o644)
    with pytest.raises(ConfigError, match="closed to other accounts"):
        Access().token()
