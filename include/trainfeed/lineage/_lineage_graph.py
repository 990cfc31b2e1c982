"""The graph of a lineage: things, and which of them came from which."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

__all__ = ["LineageGraph", "Node", "NodeKind"]

NodeKind: TypeAlias = Literal[
    "input", "upload", "lookup", "code", "version", "job", "start model", "model", "alias"
]


@dataclass(frozen=True)
class Node:
    """A thing that data came from, or went into.

    Attributes:
        kind: Kind of the thing.
        name: Its name, unique among its kind.
        facts: What is known of it, as JSON values.
    """

    kind: NodeKind
    name: str
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """Kind and name: ``version clicks/2024-03-01/g0001``."""
        return f"{self.kind} {self.name}"


class LineageGraph:
    """Nodes, and edges in the direction in which data flow: from inputs to models.

    Attributes:
        nodes: Id → node, in the order in which they were added.
    """

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self._sources: dict[str, list[str]] = {}
        self._targets: dict[str, list[str]] = {}

    def __contains__(self, node: str) -> bool:
        return node in self.nodes

    def add(self, node: Node) -> str:
        """Add a node, unless it is there, and return its id."""
        self.nodes.setdefault(node.id, node)
        return node.id

    def connect(self, source: str, target: str) -> None:
        """Add the edge between two ids, unless it is there."""
        targets = self._targets.setdefault(source, [])
        if target not in targets:
            targets.append(target)
            self._sources.setdefault(target, []).append(source)

    def sources(self, node: str) -> list[Node]:
        """Return the nodes that the data of a node came from."""
        return [self.nodes[each] for each in self._sources.get(node, [])]

    def targets(self, node: str) -> list[Node]:
        """Return the nodes that the data of a node went into."""
        return [self.nodes[each] for each in self._targets.get(node, [])]

    def edges(self) -> Iterator[tuple[str, str]]:
        """Yield all edges as (source, target)."""
        for source, targets in self._targets.items():
            yield from ((source, target) for target in targets)

    def seen_from(self, focus: Iterable[str], *, up: bool, down: bool) -> LineageGraph:
        """Return the part of the graph that edges lead to from some nodes.

        Args:
            focus: Ids of the nodes.
            up: Whether edges are followed against their direction.
            down: Whether edges are followed in their direction.
        """
        seen = set(focus)
        for follows, step in ((up, self.sources), (down, self.targets)):
            ahead = list(focus) if follows else []
            while ahead:
                found = {node.id for node in step(ahead.pop())} - seen
                seen |= found
                ahead += found
        part = LineageGraph()
        part.nodes = {name: node for name, node in self.nodes.items() if name in seen}
        for source, target in self.edges():
            if source in seen and target in seen:
                part.connect(source, target)
        return part

    def to_json(self) -> dict[str, Any]:
        """Return nodes and edges as JSON values."""
        return {
            "nodes": [
                {"id": node.id, "kind": node.kind, "name": node.name, "facts": dict(node.facts)}
                for node in self.nodes.values()
            ],
            "edges": [{"source": source, "target": target} for source, target in self.edges()],
        }
