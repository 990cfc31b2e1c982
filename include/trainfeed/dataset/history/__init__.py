"""The history of a data set: what people and upkeep changed in it, by whom, when and why."""

from trainfeed.dataset.history._action import Action, DamagedAction
from trainfeed.dataset.history._action_files import actions, record_action

__all__ = ["Action", "DamagedAction", "actions", "record_action"]
