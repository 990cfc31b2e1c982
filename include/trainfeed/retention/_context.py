"""What every kind of retention gets: the data set, the time, and what is in use."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Protocol

from trainfeed.config import Environment
from trainfeed.dataset.layout import DatasetFolder
from trainfeed.retention._folder_look import Look
from trainfeed.retention._item import Excess, Expired, Kept
from trainfeed.retention._uses import Uses, uses_of
from trainfeed.specification import DatasetSpec
from trainfeed.storage import present

__all__ = ["Context", "Kind"]


@dataclass(frozen=True)
class Context:
    """One data set at one time.

    Attributes:
        spec: The data set.
        env: Folders and connections.
        folder: The data set below the publication root; every call reads it again.
        now: The time against which ages are held, aware UTC; nothing reads another clock.
        who: The person, or the schedule of a DAG, that asks; None for the account.
        uses: Versions that are in use.
        look: What is in the folder, seen once: for what is found, never for what is removed.
        account: The run that acts for ``who``; None for the account of this process.
        is_present: Whether ``now`` is the time of this machine, which is doubted.
        sizes: Sizes in bytes of folders of versions that were looked at: each is walked once.
    """

    spec: DatasetSpec
    env: Environment
    folder: DatasetFolder
    now: datetime
    who: str | None
    uses: Uses
    look: Look
    account: str | None = None
    is_present: bool = False
    sizes: dict[Path, int] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def of(
        cls,
        spec: DatasetSpec,
        env: Environment,
        *,
        now: datetime | None = None,
        who: str | None = None,
        account: str | None = None,
    ) -> Context:
        """Return the context of a data set; ``now`` is the present by default.

        Raises:
            StorageError: What is in use cannot be told; nothing may be removed then.
        """
        folder, time = DatasetFolder(Path(env.root), spec.name), now or present()
        look = Look.at(folder)
        return cls(spec, env, folder, time, who, uses_of(look, time), look, account, now is None)

    def again(self) -> Context:
        """Return the context of this moment, in which nothing is kept of what was seen before.

        Sizes are kept: those of a version never change.
        """
        look = Look.at(self.folder)
        return replace(self, uses=uses_of(look, self.now), look=look)

    def fresh_uses(self) -> Uses:
        """Return what is in use at this moment, for the look after a mark."""
        return self.again().uses


class Kind(Protocol):
    """A kind of item, with its rule in ``retention`` of dataset.yaml."""

    @property
    def name(self) -> str:
        """Name of the kind, for ``--kind``."""

    def find(self, context: Context) -> Iterator[Expired | Kept | Excess]:
        """Yield what the rule does not keep, the first to be removed first; nothing is changed.

        An item whose removal was begun and not ended is yielded as expired, so that the next call
        completes it. Without a rule nothing is yielded.
        """

    def remove(self, context: Context, items: Sequence[Expired]) -> list[Kept]:
        """Remove items that ``find`` yielded; one that is gone meanwhile is passed over.

        Readers see an item whole or not at all, also after a kill at any line: it is marked, what
        is in use is looked at once more, it is renamed away, and then deleted.

        Returns:
            The items that stay after all, because they have come into use.
        """
