"""The memory figures of a control group, read from files that a test has written."""

import pytest

from trainfeed.core import memory_group


@pytest.mark.parametrize(
    ("group", "folder", "files", "free"),
    [
        ("0::/a\n", "a", {"memory.max": "1000", "memory.current": "400"}, 600),
        ("0::/a\n", "a", {"memory.max": "max", "memory.current": "400"}, None),
        (
            "0::/else\n",
            ".",
            {"memory.max": "1000", "memory.current": "900", "memory.stat": "inactive_file 50\n"},
            150,
        ),
        (
            "4:memory:/b\n0::/\n",
            "memory/b",
            {"memory.limit_in_bytes": "1000", "memory.usage_in_bytes": "1100"},
            0,
        ),
        ("broken", ".", {}, None),
    ],
)
def test_limits_of_control_groups_are_found(tmp_path, monkeypatch, group, folder, files, free):
    (tmp_path / "self").write_text(group if ":" in group else "")
    (tmp_path / "fs" / folder).mkdir(parents=True)
    for name, text in files.items():
        (tmp_path / "fs" / folder / name).write_text(text + "\n")
    monkeypatch.setattr(memory_group, "_GROUPS", tmp_path / "self")
    monkeypatch.setattr(memory_group, "_ROOT", tmp_path / "fs")
    assert memory_group.free_group_bytes() == free


def test_the_limits_of_the_groups_above_count_and_so_does_the_machine(tmp_path, monkeypatch):
    inner = tmp_path / "fs" / "pod" / "container"
    inner.mkdir(parents=True)
    for folder, limit in ((inner, "1000"), (inner.parent, "700"), (tmp_path / "fs", "max")):
        (folder / "memory.max").write_text(f"{limit}\n")
        (folder / "memory.current").write_text("100\n")
    (tmp_path / "memory.max").write_text("1\n")  # above the root: another one's
    (tmp_path / "self").write_text("0::/pod/container\n")
    (tmp_path / "meminfo").write_text("MemTotal: 9 kB\nMemAvailable: 2 kB\n")
    monkeypatch.setattr(memory_group, "_GROUPS", tmp_path / "self")
    monkeypatch.setattr(memory_group, "_ROOT", tmp_path / "fs")
    monkeypatch.setattr(memory_group, "_MEMINFO", tmp_path / "meminfo")
    assert memory_group.free_group_bytes() == 600
    assert memory_group.available_bytes() == 600
    (tmp_path / "meminfo").write_text("MemTotal: 9 kB\nMemAvailable: 0 kB\n")
    assert memory_group.available_bytes() == 0
    (tmp_path / "meminfo").write_text("")
    assert memory_group.available_bytes() == 600


@pytest.fixture
def group(tmp_path, monkeypatch):
    """The folder of a control group that has a limit."""

    def group(version):
        line, folder, limit = {
            1: ("4:memory:/b", tmp_path / "memory" / "b", "memory.limit_in_bytes"),
            2: ("0::/b", tmp_path / "b", "memory.max"),
        }[version]
        (tmp_path / "self").write_text(f"{line}\n")
        folder.mkdir(parents=True)
        (folder / limit).write_text("1000\n")
        return folder

    monkeypatch.setattr(memory_group, "_GROUPS", tmp_path / "self")
    monkeypatch.setattr(memory_group, "_ROOT", tmp_path)
    return group


@pytest.mark.parametrize(
    ("version", "name", "text"),
    [
        (1, "memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill {}\n"),
        (2, "memory.events", "low 0\noom 3\noom_kill {}\noom_group_kill 0\n"),
    ],
)
def test_kills_for_want_of_memory_are_counted_from_the_start(group, version, name, text):
    file = group(version) / name
    file.write_text(text.format(2))
    kills = memory_group.KillCount()
    assert kills.has_grown() is False
    file.write_text(text.format(3))
    assert kills.has_grown() is True


def test_where_no_kills_are_counted_nothing_is_said_of_them(group):
    folder = group(1)
    assert memory_group.KillCount().has_grown() is None
    # Kernels before 4.13 have the file without the number.
    (folder / "memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\n")
    assert memory_group.KillCount().has_grown() is None
