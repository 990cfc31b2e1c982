"""From a finished job to a promoted model: the gate, the version, the alias; each step once."""

from trainfeed.training.promotion._promotion import GATE_FILE, evaluate, promote

__all__ = ["GATE_FILE", "evaluate", "promote"]
