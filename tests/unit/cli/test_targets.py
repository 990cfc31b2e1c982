"""One grammar of targets: in one word or in two, the same for every command; and its completion."""

import json
import os
import pty
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from trainfeed.cli.targets import Target
from trainfeed.errors import ConfigError

ROOT = Path(__file__).parents[3]
DAY, NEXT = "2024-03-01", "2024-03-02"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("clicks",), Target("clicks")),
        (("clicks/",), Target("clicks")),
        (("clicks/2024-03",), Target("clicks", None, "2024-03")),
        (("clicks", "2024-03"), Target("clicks", None, "2024-03")),
        (("clicks/a/b",), Target("clicks", None, "a/b")),
        (("clicks", "a/b"), Target("clicks", None, "a/b")),
        (("clicks/a/g0012",), Target("clicks", None, "a", 12)),
        (("clicks", "a/g0012"), Target("clicks", None, "a", 12)),
        (("clicks@prod",), Target("clicks", "prod")),
        (("clicks@prod#3/a/b",), Target("clicks", "prod#3", "a/b")),
        (("clicks@prod", "a"), Target("clicks", "prod", "a")),
    ],
)
def test_a_target_is_read_from_one_word_or_from_two(words, expected):
    found = Target.parse(*words)
    assert found == expected
    assert Target.parse(str(found)) == expected


def test_a_tag_has_a_name_and_perhaps_the_number_of_a_change():
    assert (Target("a", "prod#3").tag_name, Target("a", "prod#3").tag_change) == ("prod", 3)
    assert (Target("a", "prod").tag_name, Target("a", "prod").tag_change) == ("prod", None)
    assert (Target("a").tag_name, Target("a").tag_change) == ("", None)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("clicks/a", "b"), "from one to the other is clicks/a/b"),
        (("clicks/a", "g0001"), "write clicks/a/g0001"),
        (("clicks/a/b", "c"), "the interval or range once, as NAME/RANGE or NAME RANGE, got both"),
        (
            ("clicks/a/b/g0001",),
            "g0001 behind the range 'a/b'; name one interval, such as clicks/a",
        ),
        (("clicks/g0001",), "expected an interval before g0001, as clicks/INTERVAL/g0001"),
        (("clicks", "g0001"), "expected an interval before g0001"),
        (("clicks@prod/a/g0001",), "a tag names generations itself"),
        (("clicks@", "a"), "expected NAME@TAG"),
        (("clicks@prod#x",), "expected NAME@TAG"),
    ],
)
def test_what_is_no_target_is_refused_with_what_to_write(words, message):
    with pytest.raises(ConfigError) as error:
        Target.parse(*words)
    assert message in str(error.value)


def test_a_target_says_which_parts_a_command_has_no_use_for():
    with pytest.raises(ConfigError, match="this command changes data; nothing was changed"):
        Target.parse("clicks@prod").to_change()
    with pytest.raises(ConfigError, match="not about those of a tag"):
        Target.parse("clicks@prod").of_intervals()
    with pytest.raises(ConfigError, match="whatever their generation; write clicks/a"):
        Target.parse("clicks/a/g0001").of_intervals()
    with pytest.raises(ConfigError, match="data set alone, got 'clicks/a'"):
        Target.parse("clicks/a").of_whole_set()
    assert Target.parse("clicks/a").to_change().of_intervals() == Target("clicks", None, "a")
    assert Target.parse("clicks").of_whole_set() == "clicks"


@pytest.fixture
def built(cli, project, monkeypatch):
    """Two days, of the first two generations, and a tag of both, on a disk that stays as free."""
    monkeypatch.setattr("trainfeed.files.stores.Location.free_bytes", lambda _: 10**10)
    project.prebuilt()
    project.prebuilt(rebuild="again")
    project.prebuilt(NEXT)
    assert cli("tag", "clicks", f"{DAY}/{NEXT}", "prod", "--why", "to try")[0] == 0
    return cli


# What a command is asked for → what it is asked for in one word.
LOOKS = [
    (("show",), DAY, ("--json",)),
    (("show",), f"{DAY}/g0001", ("--json",)),
    (("show",), f"{DAY}/{NEXT}", ("--json",)),
    (("show",), "2024-03", ()),
    (("ls",), "2024-03", ("--json",)),
    (("head",), DAY, ("-n", "2")),
    (("head",), f"{DAY}/g0001", ("--json",)),
    (("stats",), DAY, ()),
    (("verify",), DAY, ("--json",)),
    (("verify",), f"{DAY}/{NEXT}", ()),
    (("verify",), f"{DAY}/g0001", ()),
    (("status",), DAY, ()),
    (("outdated",), "2024-03", ("--json",)),
    (("drift",), "2024-03", ()),
    (("lineage",), DAY, ("--json",)),
    (("lineage",), "2024-03", ()),
    (("waivers", "ls"), DAY, ("--json",)),
    (("waivers", "ls"), "2024-03", ()),
    (("quarantine", "ls"), DAY, ("--json",)),
    (("quarantine", "ls"), "2024-03", ()),
    (("quarantine", "show"), f"{DAY}/g0001", ()),
    (("quarantine", "preview"), DAY, ()),
    (("waive",), DAY, ("--dry-run",)),
    (("withdraw",), DAY, ("--dry-run",)),
    (("withdraw",), f"{DAY}/g0002", ("--dry-run", "--json")),
    (("restore",), DAY, ("--dry-run",)),
    (("repair",), f"{DAY}/g0001", ("--dry-run",)),
    (("retire",), "2024-03", ("--dry-run",)),
    (("build",), "2024-03", ("--dry-run",)),
    (("bring-forward",), "2024-03", ("--dry-run",)),
    (("train",), DAY, ()),
    (("models", "evaluate"), DAY, ()),
    (("accept-hole",), f"{DAY}T05/{DAY}T06", ("--dry-run",)),
]


@pytest.mark.parametrize(("command", "asked", "options"), LOOKS)
def test_every_command_takes_a_target_in_one_word_and_in_two(built, command, asked, options):
    one = built(*command, f"clicks/{asked}", *options)
    two = built(*command, "clicks", asked, *options)
    assert one == two
    assert "unexpected extra argument" not in one[2]
    twice = built(*command, f"clicks/{asked}", asked, *options)
    assert twice[:2] == (2, "")
    assert "expected the interval or range once" in twice[2]
    more = built(*command, "clicks", asked, "more", *options)
    assert more[:2] == (2, "")
    assert "expected NAME/RANGE or NAME RANGE, got more words: more" in " ".join(more[2].split())


@pytest.mark.parametrize(
    ("command", "options"),
    [
        (("show",), ("--json",)),
        (("ls",), ("--json",)),
        (("verify",), ("--json",)),
        (("lineage",), ("--json",)),
    ],
)
def test_a_tag_is_taken_with_a_range_in_one_word_and_in_two(built, command, options):
    assert built(*command, "clicks@prod/2024-03", *options) == built(
        *command, "clicks@prod", "2024-03", *options
    )
    # A name with an alias and no range is that of a model, for lineage.
    assert built(*command, "clicks@prod", *options)[0] == (1 if command == ("lineage",) else 0)


@pytest.mark.parametrize(
    "arguments",
    [
        ("withdraw", "clicks@prod/2024-03-01", "--why", "to try"),
        ("restore", "clicks@prod", DAY, "--why", "to try"),
        ("repair", "clicks@prod/2024-03-01"),
        ("retire", "clicks@prod", DAY, "--why", "to try"),
        ("build", "clicks@prod", DAY),
        ("build", "clicks@prod", "--interval", DAY),
        ("bring-forward", "clicks@prod", "2024-03"),
        ("waive", "clicks@prod", DAY),
        ("accept-hole", "clicks@prod", "a/b", "--why", "to try"),
        ("quarantine", "replay", "clicks@prod", DAY),
        ("models", "evaluate", "clicks@prod", DAY),
    ],
)
def test_commands_that_change_data_refuse_a_tag(built, arguments):
    status, output, message = built(*arguments)
    assert (status, output) == (2, "")
    assert "expected NAME without @TAG" in message
    assert "trainfeed tags clicks prod lists" in message


@pytest.mark.parametrize(
    "command",
    [
        ("prune",),
        ("history",),
        ("leases",),
        ("boundaries", "check"),
        ("boundaries", "restore"),
        ("uploads", "ls"),
        ("uploads", "check"),
        ("jobs", "ls"),
        ("quarantine", "audit"),
    ],
)
def test_commands_on_a_whole_data_set_say_so(built, command):
    status, output, message = built(*command, f"clicks/{DAY}")
    assert (status, output) == (2, "")
    assert f"expected the name of a data set alone, got 'clicks/{DAY}'" in message


def tagged(cli, name="jan"):
    return json.loads(cli("tags", "clicks", name, "--json")[1])["generations"]


@pytest.mark.parametrize(
    ("words", "generations"),
    [
        (("clicks", "2024-03-01/g0001", "jan"), {DAY: "g0001"}),
        (("clicks/2024-03-01/g0001", "jan"), {DAY: "g0001"}),
        (("clicks", f"{DAY}/{NEXT}", "jan"), {DAY: "g0002", NEXT: "g0001"}),
        (("clicks/2024-03", "jan"), {DAY: "g0002", NEXT: "g0001"}),
        (("clicks", "@prod", "jan"), {DAY: "g0002", NEXT: "g0001"}),
        (("clicks@prod", "jan"), {DAY: "g0002", NEXT: "g0001"}),
        (("clicks@prod#1", "jan"), {DAY: "g0002", NEXT: "g0001"}),
    ],
)
def test_a_tag_is_given_to_what_any_target_names(built, words, generations):
    assert built("tag", *words, "--why", "to try", "--allow-missing")[0] == 0
    assert tagged(built) == generations


@pytest.mark.parametrize("words", [("clicks",), ("clicks", "jan"), ("clicks@prod", DAY, "jan")])
def test_a_tag_without_versions_or_without_a_name_is_wrong_usage(built, words):
    status, output, message = built("tag", *words, "--why", "to try")
    assert (status, output) == (2, "")
    assert "expected NAME RANGE TAG, NAME/RANGE TAG, or NAME@TAG NEW" in message


def test_tags_are_shown_and_removed_by_name_at_tag(built):
    assert built("tags", "clicks@prod", "--json") == built("tags", "clicks", "prod", "--json")
    assert "expected NAME TAG or NAME@TAG" in built("tags", "clicks@prod", "prod")[2]
    assert "expected NAME TAG or NAME@TAG" in built("untag", "clicks", "--why", "to try")[2]
    assert built("untag", "clicks@prod", "--why", "to try")[0] == 0
    assert built("tags", "clicks", "prod")[0] == 1


def test_two_versions_are_compared_by_any_spelling(built):
    wanted = built("diff", "clicks", f"{DAY}/g0001", f"{DAY}/g0002", "--json")
    assert built("diff", f"clicks/{DAY}/g0001", f"clicks/{DAY}/g0002", "--json") == wanted
    assert built("diff", "clicks", "g0001", "g0002", "--interval", DAY, "--json") == wanted
    assert built("diff", f"clicks/{DAY}/g0001", f"clicks@prod/{DAY}", "--json") == wanted


# --- Completion, by the program as a shell calls it, and by bash itself


@pytest.fixture
def shell(built, project, tmp_path):
    """The program ``trainfeed`` in a folder, and the environment of a shell that finds it."""
    home = tmp_path / "bin"
    home.mkdir()
    path = home / "trainfeed"
    path.write_text(f"#!{sys.executable}\nfrom trainfeed.cli import main\n\nmain()\n")
    path.chmod(0o755)
    return {
        "PATH": f"{home}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT / "include"),
        "TRAINFEED_ROOT": project.env.root,
        "TRAINFEED_DATASETS": str(project.env.datasets),
    }


# A line → what may stand in the place of its last word.
COMPLETED = {
    "show cl": ["clicks"],
    "show clicks/": [f"clicks/{DAY}", f"clicks/{NEXT}"],
    "show clicks@": ["clicks@prod"],
    "show clicks@p": ["clicks@prod"],
    "show clicks@prod/": [f"clicks@prod/{DAY}", f"clicks@prod/{NEXT}"],
    f"show clicks/{DAY}/": [f"clicks/{DAY}/{each}" for each in ("g0001", "g0002", NEXT)],
    "show clicks ": [DAY, NEXT],
    f"verify clicks {DAY}/g": [f"{DAY}/g0001", f"{DAY}/g0002"],
    "status clicks 2024-03-02": [NEXT],
    "build clicks ": [DAY, NEXT],
    "quarantine ls clicks ": [DAY, NEXT],
    "waivers ls cl": ["clicks"],
    "tags clicks ": ["prod"],
    "untag clicks p": ["prod"],
    "tag clicks @": ["@prod"],
    f"tag clicks {DAY} ": ["prod"],
    "train clicks@": ["clicks@prod"],
    "diff clicks ": [DAY, NEXT],
    f"diff clicks {DAY}/g0001 {DAY}/": [f"{DAY}/{each}" for each in ("g0001", "g0002", NEXT)],
    "diff clicks/2024-03-02": [f"clicks/{NEXT}"],
    "jobs ls cl": ["clicks"],
    "show klicks/": [],
}


@pytest.mark.parametrize("line", COMPLETED)
def test_zsh_and_fish_are_offered_data_sets_intervals_generations_and_tags(
    built, monkeypatch, line
):
    # The program is named by its file, not by the module that runs the tests.
    monkeypatch.setattr(sys.modules["__main__"], "__package__", None)
    monkeypatch.setenv("_TYPER_COMPLETE_ARGS", f"trainfeed {line}")
    monkeypatch.setenv("_TYPER_COMPLETE_FISH_ACTION", "get-args")
    monkeypatch.setenv("_TRAINFEED_COMPLETE", "complete_zsh")
    expected = COMPLETED[line]
    shown = "\n".join(f'"{each}"' for each in expected)
    wanted = f"_arguments '*: :(({shown}))'\n" if expected else "_files\n"
    assert built() == (0, wanted, "")
    monkeypatch.setenv("_TRAINFEED_COMPLETE", "complete_fish")
    status, found, _ = built()
    assert (status, found.split()) == (0, expected)


# A shell → its command, and what makes its terminal plain and its completion ready.
SHELLS = {
    "bash": (
        ["bash", "--norc", "--noprofile", "-i"],
        'PS1="ready> "; bind "set enable-bracketed-paste off"',
    ),
    "zsh": (
        ["zsh", "-f", "-i"],
        (
            'unsetopt PROMPT_SP PROMPT_CR; unset zle_bracketed_paste; bindkey -e; PS1="ready> "'
            "; autoload -Uz compinit && compinit -u -d ./completions"
        ),
    ),
}


class Shell:
    """A shell on a terminal, which completes lines."""

    def __init__(self, name, env, folder):
        words, begin = SHELLS[name]
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            os.chdir(folder)
            os.execvpe(words[0], words, env)
        self.read = b""
        self.send(f"{begin}\n", until=b"ready> ")
        source = f"_TRAINFEED_COMPLETE=source_{name} trainfeed"
        self.send(f'eval "$({source})"; echo $?ok\n', until=b"0ok")

    def send(self, text, until):
        os.write(self.terminal, text.encode())
        end, seen = time.monotonic() + 60, len(self.read)
        while until not in self.read[seen:]:
            assert time.monotonic() < end, self.read
            if select.select([self.terminal], [], [], 1)[0]:
                self.read += os.read(self.terminal, 65536)
        return self.read[seen:]

    def completed(self, line):
        """Return the line as it stands after a tabulator: an echo is put around it."""
        shown = self.send(f'trainfeed {line}\t\x01echo "[\x05]"\n', until=b"]\r\n").decode()
        self.send('echo ""done\n', until=b"\ndone\r\nready> ")
        return shown.rpartition("[")[2].partition("]")[0].strip()

    def close(self):
        os.close(self.terminal)
        os.waitpid(self.pid, 0)


# A line → the line after a tabulator.
WHOLE = {
    "show cl": "show clicks",
    "show clicks/2024-03-02": f"show clicks/{NEXT}",
    "show clicks@": "show clicks@prod",
    "show clicks@p": "show clicks@prod",
    "show clicks@prod/2024-03-02": f"show clicks@prod/{NEXT}",
    "show clicks@prod 2024-03-02": f"show clicks@prod {NEXT}",
    "tag clicks @p": "tag clicks @prod",
    "untag clicks p": "untag clicks prod",
}


def require_whole_lines(name, shell, folder):
    terminal = Shell(name, {**shell, "TERM": "dumb", "HOME": str(folder)}, folder)
    try:
        for line, whole in WHOLE.items():
            assert terminal.completed(line) == f"trainfeed {whole}"
    finally:
        terminal.close()


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_bash_completes_what_it_takes_for_several_words(shell, tmp_path):
    require_whole_lines("bash", shell, tmp_path)


def test_zsh_completes_lines_where_it_is_installed(shell, tmp_path):
    # No skip: CI allows none, and the protocol of zsh is tested above on every machine.
    if shutil.which("zsh"):
        require_whole_lines("zsh", shell, tmp_path)


def test_fish_offers_what_may_follow_where_it_is_installed(shell, tmp_path):
    if not shutil.which("fish"):
        return
    # One of each kind: fish asks the program twice for a line.
    lines = ["show cl", "show clicks@", f"show clicks/{DAY}/", "build clicks ", "tags clicks "]
    asked = "\n".join(f'complete --do-complete "trainfeed {line}"; echo END' for line in lines)
    program = f"env _TRAINFEED_COMPLETE=source_fish trainfeed | source\n{asked}"
    done = subprocess.run(
        ["fish", "--no-config", "-c", program],
        env={**shell, "HOME": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    # Fish sorts what it is offered.
    found = [sorted(part.split()) for part in done.stdout.split("END\n")[:-1]]
    assert found == [sorted(COMPLETED[line]) for line in lines]
