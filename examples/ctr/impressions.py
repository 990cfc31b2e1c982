"""The 60,000 real impressions that the package obp ships: the sample of the Open Bandit Dataset.

Only its CSV files are read, so the package is installed without its dependencies into a folder of
its own (``requirements/ctr.txt`` says how) and never imported.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from trainfeed.errors import ConfigError, FormatError

__all__ = ["CAMPAIGNS", "LOGS", "Impression", "ItemRow", "Log", "read_items", "read_log"]

# Campaign → number of its items.
CAMPAIGNS: Final = {"all": 80, "men": 34, "women": 46}

_INSTALLED_AT: Final = Path("obp", "dataset", "obd")
_USERS: Final = tuple(f"user_feature_{number}" for number in range(4))
_ITEMS: Final = tuple(f"item_feature_{number}" for number in range(1, 4))


class Log(NamedTuple):
    """One file of impressions.

    Attributes:
        policy: Who chose the items: ``random``, or ``bts``, which learns.
        campaign: Which items were shown.
    """

    policy: str
    campaign: str


LOGS: Final = tuple(Log(policy, campaign) for policy in ("random", "bts") for campaign in CAMPAIGNS)


class Impression(NamedTuple):
    """One item that was shown to a user.

    Attributes:
        day: UTC, as ``2019-11-24``.
        click: 1 if the user clicked, else 0.
        position: Place on the page, from 1.
        item: Number of the item within its campaign.
        user: Four properties of the user, each a hash.
        affinities: Item of the campaign → how often the user has clicked it; only those above 0.
    """

    day: str
    click: int
    position: int
    item: int
    user: tuple[str, ...]
    affinities: dict[int, float]


class ItemRow(NamedTuple):
    """One item.

    Attributes:
        measure: An anonymous number, standardised.
        categories: Three properties, each a hash.
    """

    measure: float
    categories: tuple[str, ...]


def read_log(data: Path, log: Log) -> Iterator[Impression]:
    """Yield the impressions of a log by their time.

    Args:
        data: The folder into which obp was installed.
        log: Which of the six.

    Raises:
        ConfigError: The package is not installed.
        FormatError: A line is not as expected.
    """
    path = _found(data, log, f"{log.campaign}.csv")
    for row in _rows(path):
        try:
            yield _impression(row, CAMPAIGNS[log.campaign])
        except (KeyError, TypeError, ValueError) as error:
            raise FormatError(
                f"expected an impression after {row.get('timestamp')}: {error!r}", path=str(path)
            ) from error


def read_items(data: Path, campaign: str) -> list[ItemRow]:
    """Return the items of a campaign by their number.

    Raises:
        ConfigError: The package is not installed.
        FormatError: The file has other items.
    """
    # The other policy has the same items, under other hashes.
    path = _found(data, Log("random", campaign), "item_context.csv")
    rows = list(_rows(path))
    if [row["item_id"] for row in rows] != [str(n) for n in range(CAMPAIGNS[campaign])]:
        raise FormatError(f"expected items 0 to {CAMPAIGNS[campaign] - 1}", path=str(path))
    try:
        return [ItemRow(float(row["item_feature_0"]), _texts(row, _ITEMS)) for row in rows]
    except (TypeError, ValueError) as error:
        raise FormatError(f"expected items: {error!r}", path=str(path)) from error


def _found(data: Path, log: Log, name: str) -> Path:
    path = data / _INSTALLED_AT / log.policy / log.campaign / name
    if not path.is_file():
        raise ConfigError(
            f"expected the data of obp in {data}, {path} is missing; install it as"
            " requirements/ctr.txt says, or name another folder"
        )
    return path


def _rows(path: Path) -> Iterator[dict[str, str]]:
    with path.open(newline="", encoding="ascii") as lines:
        yield from csv.DictReader(lines)


def _impression(row: dict[str, str], num_items: int) -> Impression:
    texts = ((n, row[f"user-item_affinity_{n}"]) for n in range(num_items))
    affinities = ((n, float(text)) for n, text in texts if text != "0.0")
    return Impression(
        day=row["timestamp"][:10],
        click=int(row["click"]),
        position=int(row["position"]),
        item=int(row["item_id"]),
        user=_texts(row, _USERS),
        affinities={number: value for number, value in affinities if value},
    )


def _texts(row: dict[str, str], names: tuple[str, ...]) -> tuple[str, ...]:
    # A line that is cut has None for what is missing.
    return tuple("".join(row[name]) for name in names)
