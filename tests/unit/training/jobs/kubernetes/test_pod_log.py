"""The end of a pod's log is its end, however long its lines are."""

from __future__ import annotations

import pytest

from trainfeed.training.jobs.kubernetes.api import ApiCalls


class Kubelet:
    """Takes the last lines, and of these the first bytes, as a kubelet does."""

    def __init__(self, log):
        self.log = log

    def text(self, _path, query, max_bytes):
        lines = b"".join(self.log.splitlines(keepends=True)[-int(query["tailLines"]) :])
        return lines[: min(int(query["limitBytes"]), max_bytes)].decode(errors="replace")


@pytest.mark.parametrize("line_bytes", [1, 100, 20_000, 600_000])
def test_the_end_of_a_log_is_returned_and_no_more_than_was_asked_for(line_bytes):
    line = b"x" * line_bytes
    calls = ApiCalls(Kubelet(b"\n".join([line] * 40 + [b"the very end"])), "c", "n", lambda _: None)
    text = calls.pod_log("p", max_bytes=2000)
    assert text.endswith("x\nthe very end" if line_bytes < 30_000 else "the very end")
    assert len(text.encode()) <= 2000
