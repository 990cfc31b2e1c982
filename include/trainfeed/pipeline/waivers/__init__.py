"""Waivers in a build: the judgement of ``check``, work that is not done again, and ``waive``."""

from trainfeed.pipeline.waivers._gate_judgement import Judgement, judge, judged
from trainfeed.pipeline.waivers._waivable import Waivable, next_command, waivable
from trainfeed.pipeline.waivers._waive import WaiverWish, waive
from trainfeed.pipeline.waivers._waiver_state import UnreadWaiver, WaiverState, waiver_states
from trainfeed.pipeline.waivers._work_kept import kept_account, kept_shards

__all__ = [
    "Judgement",
    "UnreadWaiver",
    "Waivable",
    "WaiverState",
    "WaiverWish",
    "judge",
    "judged",
    "kept_account",
    "kept_shards",
    "next_command",
    "waivable",
    "waive",
    "waiver_states",
]
