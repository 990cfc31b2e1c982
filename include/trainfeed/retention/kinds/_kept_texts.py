"""Kept code and kept lookups that no plan of the data set names."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Final, Literal, TypeAlias

from trainfeed.dataset.layout import DatasetFolder
from trainfeed.errors import FormatError, NotFoundError
from trainfeed.paths import listed
from trainfeed.pipeline.plans import Plan
from trainfeed.retention._context import Context
from trainfeed.retention._folder_look import Look
from trainfeed.retention._item import Expired, Item, Kept
from trainfeed.retention.kinds._moved_aside import file_item, move_aside

__all__ = ["KeptTexts"]

TextKind: TypeAlias = Literal["code", "lookups"]

_NAME: Final = re.compile(r"([0-9a-f]{64})(\.json)?")
# A build that finds an outdated version keeps the code of today without a plan, night by night.
_YOUNG: Final = timedelta(days=3)


class KeptTexts:
    """Files of ``code`` or ``lookups``: a plan has their digest, and a difference shows them.

    They go without a rule once no plan names them. A plan that cannot be read keeps all.

    Args:
        name: ``code`` or ``lookups``, the kind and the folder.
    """

    def __init__(self, name: TextKind) -> None:
        self._name: TextKind = name

    @property
    def name(self) -> str:
        """Name of the kind."""
        return self._name

    def find(self, context: Context) -> Iterator[Expired | Kept]:
        """Yield files of old digests, in order of their names."""
        before = context.now - _YOUNG
        old = [each for each in self._items(context.folder) if each.since < before]
        if not old:
            return
        why_of = self._wanted(context.look)
        for item in old:
            why = why_of(item)
            if why is None:
                yield Expired(item, "no plan names it")
            elif why != _NAMED:
                yield Kept(item, why)

    def remove(self, context: Context, items: Sequence[Expired]) -> list[Kept]:
        """Delete the files that no plan names after all: a build keeps them after its plan."""
        return move_aside(context.folder, items, lambda: self._wanted(Look.at(context.folder)))

    def _items(self, folder: DatasetFolder) -> Iterator[Item]:
        for path in listed(folder.path / self._name):
            if _NAME.fullmatch(path.name):
                item = file_item(self._name, f"{self._name}/{path.name}", path)
                if item is not None:
                    yield item

    def _wanted(self, folder: Look) -> Callable[[Item], str | None]:
        """Return what says why a file is wanted, after one look at all plans."""
        named: set[str] = set()
        for interval in folder.planned_intervals():
            for plan_id in folder.plan_ids(interval):
                try:
                    plan = folder.plan_of(interval, plan_id)
                except NotFoundError:
                    continue
                except FormatError as error:
                    return _all_by(
                        f"plan {interval}/{plan_id} cannot be read and may name it: {error}"
                    )
                named |= self._digests(plan)
        return lambda item: _NAMED if _digest(item) in named else None

    def _digests(self, plan: Plan) -> set[str]:
        if self._name == "code":
            return {str(plan.code["digest"])}
        return set(plan.lookups.values())


_NAMED: Final = "a plan names it"


def _all_by(why: str) -> Callable[[Item], str | None]:
    return lambda _item: why


def _digest(item: Item) -> str:
    return item.name.partition("/")[2].removesuffix(".json")
