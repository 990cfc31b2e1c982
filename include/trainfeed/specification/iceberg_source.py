"""A table of Iceberg as a kind of source: the rows that its snapshots appended."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import Annotated, Any, ClassVar, Final, Protocol

from pydantic import Field, PrivateAttr, field_validator

from trainfeed.core.intervals import Interval
from trainfeed.specification.messages import Place
from trainfeed.specification.source_kinds import (
    LateRule,
    Measure,
    Missing,
    MissingRule,
    TopicPart,
    Wait,
)
from trainfeed.specification.values import (
    Connection,
    Duration,
    Size,
    SourcePart,
    Text,
    WrongValueError,
    matching,
    pattern_schema,
)

_FORMAT: Final = "iceberg"
_TABLE: Final = re.compile(r"[\w-]{1,200}(\.[\w-]{1,200}){1,8}")
_AT_ONCE: Final = MissingRule(timedelta(0), "empty")


class IcebergSourceSpec(SourcePart):
    """A table of Iceberg: an interval has the rows that were appended within it.

    A commit belongs to the interval of its own time, whatever times its rows have.

    Attributes:
        catalog: Name of the connection of the catalogue that has the table.
        table: Namespace and name of the table, like ``shop.orders``. Its branch ``main`` is read.
        columns: The columns that are read, and no others, with their names at the end of the
            interval; by default all. A column that was renamed since keeps its values.
        settle: Time after the end of an interval before which it is not planned: as long as a
            commit takes, and as far as the clocks of those who commit are behind.
        wait: How long after that runs of the schedule wait for a first commit of an interval. The
            time counts from the interval and not from a run. A commit behind the interval ends it.
        missing: Policy for an interval in which nothing was appended. ``fail``: runs fail.
            ``empty``: it is published as empty. ``skip``: it is left out, and a marker says why.
        split_bytes: Approximate size of the pieces in which data files are read. A row group is
            never cut: it belongs to the piece in which it begins.
        bytes_per_record: Expected size of a row in its file, from which the numbers of tasks and
            shards follow.
    """

    catalog: Connection = "catalog_default"
    table: Annotated[
        str,
        matching(_TABLE, "namespace and name of a table, like shop.orders"),
        pattern_schema(_TABLE, "shop.orders"),
    ]
    columns: Annotated[tuple[Text, ...], Field(min_length=1)] | None = None
    settle: Duration = timedelta(minutes=10)
    wait: Wait = timedelta(0)
    missing: Missing = "fail"
    split_bytes: Annotated[Size, Field(ge=1)] = 64 << 20
    bytes_per_record: Annotated[Size, Field(ge=1)] = 64

    _lands: bool = PrivateAttr(default=False)

    topics: ClassVar[tuple[TopicPart, ...]] = ()
    clusters: ClassVar[tuple[str, ...]] = ()
    file_systems: ClassVar[tuple[str, ...]] = ()
    folder_wait: ClassVar[timedelta | None] = None
    has_columns: ClassVar[bool] = True

    @field_validator("columns")
    @classmethod
    def _names_each_once(cls, names: tuple[str, ...] | None) -> tuple[str, ...] | None:
        if len(set(names or ())) < len(names or ()):
            raise WrongValueError("each column once")
        return names

    @property
    def lands(self) -> bool:
        """False: data files are read in place; see ``landed``."""
        return self._lands

    def landed(self) -> IcebergSourceSpec:
        """Return the source with rows that were landed before, as for a look at some of them."""
        found = self.model_copy()
        found._lands = True  # noqa: SLF001 - its own
        return found

    @property
    def missing_rule(self) -> MissingRule:
        """The settings ``wait`` and ``missing``."""
        return MissingRule(self.wait, self.missing)

    @property
    def missing_rules(self) -> dict[str, MissingRule]:
        """The rule by its place in dataset.yaml; none where an interval is empty at once."""
        return {} if self.missing_rule == _AT_ONCE else {self.setting: self.missing_rule}

    @property
    def setting(self) -> str:
        """Its place in dataset.yaml."""
        return f"{self._at}.iceberg"

    def measure(self, records_per_task: int) -> Measure:  # noqa: ARG002 - files are cut by bytes
        """Return sizes in bytes of the data files."""
        return Measure(self.split_bytes, self.bytes_per_record)

    def late_rule(self, label: str) -> LateRule:  # noqa: ARG002 - all files are alike
        """Return the rule ``keep``: a row has the time of its commit, which is in the interval."""
        return LateRule("keep")

    def fingerprint(self) -> dict[str, Any]:
        """Return the values that determine the records; catalogue, pieces and rules do not."""
        value: dict[str, Any] = {"format": _FORMAT, "bytes_per_record": self.bytes_per_record}
        if self.columns is not None:
            value["columns"] = list(self.columns)
        return value

    def described(self) -> Iterator[str]:
        """Yield the table with its catalogue."""
        yield f"Iceberg table `{self.table}` (catalogue `{self.catalog}`)"

    def contradictions(
        self,
        schedule: str,  # noqa: ARG002 - a table goes with every schedule
        zone: str | None,  # noqa: ARG002
        intervals: Iterable[Interval],  # noqa: ARG002
    ) -> Iterator[tuple[Place, str]]:
        """Yield nothing: one table has no contradictions."""
        yield from ()


class _Spec(Protocol):
    """What is read here of the part ``source`` of a specification."""

    @property
    def iceberg(self) -> IcebergSourceSpec | None: ...


def catalogs_of(source: _Spec) -> list[str]:
    """Return the connections of the catalogues that a source names."""
    return [] if source.iceberg is None else [source.iceberg.catalog]
