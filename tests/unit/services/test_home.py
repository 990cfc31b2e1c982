import errno
import json
import os
from contextlib import suppress

import pytest

from services import _home
from services.__main__ import main as services_main


def test_of_two_that_choose_ports_at_the_same_time_both_get_those_of_the_first(
    tmp_path, monkeypatch
):
    def free(names):
        # The other one has written its own meanwhile.
        (tmp_path / "ports.json").write_text(json.dumps(dict.fromkeys(names, 20_001)))
        return dict.fromkeys(names, 20_002)

    monkeypatch.setattr(_home, "_free", free)
    for _ in range(2):
        assert _home.remembered_ports(tmp_path, {"broker": 19_092}) == {"broker": 20_001}
    assert [path.name for path in tmp_path.iterdir()] == ["ports.json"]


@pytest.mark.parametrize("links", [True, False])
def test_ports_are_chosen_once(tmp_path, monkeypatch, links):
    def refuse(*_):
        raise PermissionError(errno.EPERM, "no links here")

    if not links:
        monkeypatch.setattr(os, "link", refuse)
    home = tmp_path / "kafka"
    monkeypatch.setattr(_home, "_free", lambda names: dict.fromkeys(names, 20_001))
    assert _home.remembered_ports(home, {"broker": 19_092}) == {"broker": 20_001}
    monkeypatch.setattr(_home, "_free", lambda names: dict.fromkeys(names, 20_002))
    assert _home.remembered_ports(home, {"broker": 19_092}) == {"broker": 20_001}
    assert [path.name for path in home.iterdir()] == ["ports.json"]


def test_what_services_make_is_not_writable_for_others(tmp_path, socket_enabled):
    before = os.umask(0)
    try:
        with suppress(SystemExit):
            services_main(["status", "kafka"])
        _home.remembered_ports(tmp_path / "kafka", {"broker": 19_092})
    finally:
        os.umask(before)
    assert (tmp_path / "kafka").stat().st_mode & 0o022 == 0
