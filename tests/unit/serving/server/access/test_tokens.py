"""The token file: its form, its mode, and the lines that ``trainfeed token new`` adds."""

import hashlib
import json
import os
from datetime import UTC, datetime

import pytest
from typer.testing import CliRunner

from trainfeed.cli._app import app
from trainfeed.errors import ConfigError, StorageError
from trainfeed.serving.server import Access, TokenFile, new_token, revoke_tokens

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


def cli(*arguments):
    return CliRunner().invoke(app, ["token", *arguments])


def digest_of(token):
    return hashlib.sha256(token.encode()).hexdigest()


def test_the_lines_of_a_file_are_listed_without_a_token(tokens):
    token = new_token(tokens, "anna", scopes="train,read", expires=datetime(2020, 1, 1, tzinfo=UTC))
    tokens.write_text(f"{tokens.read_text()}# people\nbert certificate\n")
    found = cli("ls", "--tokens", str(tokens), "--json")
    assert found.exit_code == 0
    assert token not in found.stdout
    first, second = json.loads(found.stdout)
    assert first == {
        "name": "anna",
        "digest": digest_of(token),
        "scopes": ["read", "train"],
        "expires": "2020-01-01T00:00:00Z",
        "state": "expired",
    }
    assert (second["digest"], second["scopes"], second["state"]) == ("certificate", ["*"], "valid")
    shown = cli("ls", "--tokens", str(tokens)).stdout
    assert "read,train" in shown
    assert digest_of(token) not in shown


def test_a_revoked_token_is_refused_at_once_and_the_others_stay(tokens):
    old, new, other = (new_token(tokens, name, scopes="*") for name in ("anna", "anna", "bert"))
    server = TokenFile(tokens)
    assert server.caller(old, None).name == "anna"
    tokens.chmod(0o640)
    found = cli("revoke", "anna", "--tokens", str(tokens), "--digest", digest_of(old)[:6])
    assert (found.exit_code, found.stdout) == (0, f"1 of anna revoked: {digest_of(old)[:12]}\n")
    assert server.caller(old, None) is None
    assert server.caller(new, None).name == "anna"
    assert tokens.stat().st_mode & 0o777 == 0o640
    assert digest_of(old) not in tokens.read_text()
    assert [line.proof for line in revoke_tokens(tokens, "anna")] == [digest_of(new)]
    assert server.caller(new, None) is None
    assert server.caller(other, None).name == "bert"


def test_a_server_accepts_nothing_when_the_last_token_is_revoked(tokens):
    token = new_token(tokens, "anna", scopes="*")
    server = TokenFile(tokens)
    revoke_tokens(tokens, "anna")
    with pytest.raises(ConfigError, match="trainfeed token new"):
        server.caller(token, None)
    again = new_token(tokens, "anna", scopes="*")
    assert server.caller(again, None).name == "anna"


def test_a_dry_run_and_a_wrong_choice_change_nothing(tokens):
    old, _ = (new_token(tokens, "anna", scopes="*") for _ in range(2))
    before = tokens.read_bytes()
    found = cli("revoke", "anna", "--tokens", str(tokens), "--dry-run", "--json")
    assert json.loads(found.stdout)["revoked"][0]["digest"] == digest_of(old)
    for name, digest in (("carl", None), ("anna", "0" * 64), ("anna", digest_of(old)[:3])):
        with pytest.raises(ConfigError, match="nothing was changed; trainfeed token ls"):
            revoke_tokens(tokens, name, digest=digest)
    assert tokens.read_bytes() == before


def test_a_kill_between_the_two_writes_of_a_revocation_leaves_a_comment(tokens, monkeypatch):
    token = new_token(tokens, "anna", scopes="*")
    new_token(tokens, "bert", scopes="*")
    write = os.pwrite

    def killed(descriptor, data, place):
        if len(data) > 1:
            raise KeyboardInterrupt
        return write(descriptor, data, place)

    monkeypatch.setattr(os, "pwrite", killed)
    with pytest.raises(KeyboardInterrupt):
        revoke_tokens(tokens, "anna")
    assert TokenFile(tokens).caller(token, None) is None
    assert [line.caller.name for line in TokenFile(tokens).lines] == ["bert"]


def test_a_line_that_ends_otherwise_is_left_to_people(tokens):
    tokens.write_text(f"# old\x0c# page\nanna {DIGEST} *\n")
    with pytest.raises(ConfigError, match="remove the line by hand"):
        revoke_tokens(tokens, "anna")
    assert DIGEST in tokens.read_text()


def test_a_file_that_is_not_there_is_an_error_and_is_not_made(tmp_path):
    found = cli("revoke", "anna", "--tokens", str(tmp_path / "none.txt"))
    assert isinstance(found.exception, StorageError)
    assert not list(tmp_path.iterdir())
