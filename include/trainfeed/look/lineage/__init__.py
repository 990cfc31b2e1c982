"""Where data came from, and what came of them: positions, files, versions, jobs, models.

The answer comes from manifests, job files and aliases alone. Nothing keeps an index, and a damaged
entry is named and hides no other.
"""

from trainfeed.look.lineage.graph import LineageGraph, Node, NodeKind
from trainfeed.look.lineage.tracer import Lineage, SourcePosition, Tracer

__all__ = ["Lineage", "LineageGraph", "Node", "NodeKind", "SourcePosition", "Tracer"]
