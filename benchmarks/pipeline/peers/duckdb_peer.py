# ruff: noqa: S608, S108, E501 - queries are put together from constants of this file
"""The benchmark's work in DuckDB: ``python duckdb_peer.py FOLDER/x10 OUT records|parquet``."""

import sys
from pathlib import Path

import duckdb
from records import NUM_SHARDS, NUM_VALUES, NUMBERS, SCALES, TEXTS, Shards, pack


def main(place: Path, out: Path, form: str) -> None:
    """Read, join, hash, sort and write."""
    out.mkdir(parents=True)
    db = duckdb.connect()
    db.execute("set threads = 2; set preserve_insertion_order = false")
    db.execute(f"set temp_directory = '{out}/tmp'")
    lookups = place / "datasets" / "batch" / "flights"
    values = ", ".join(
        f"coalesce(({name} - {typical}) / {spread}, 0)::float as v{5 + number}"
        for number, (name, (typical, spread)) in enumerate(SCALES.items())
    )
    db.execute(
        f"create temp table w as select origin, time_hour, {values}, 0::float as v13,"
        f" coalesce((wind_dir // 45)::varchar, '?') as wind, {bucket(18, 'visib // 2')},"
        f" {bucket(19, 'floor(precip * 50)')} from '{lookups}/weather.parquet'"
    )
    db.execute(
        f"create temp table p as select tailnum, year as built, seats, {bucket(14, 'model')},"
        f" {bucket(15, 'manufacturer')}, {bucket(16, 'engine')} from '{lookups}/planes.parquet'"
    )
    types = dict.fromkeys(NUMBERS, "integer") | dict.fromkeys(TEXTS, "varchar")
    columns = ", ".join(f"{name}: '{kind}'" for name, kind in types.items())
    query = f"""
        select hash(l.id, 7) as key, {features()}, (arr_delay >= 15)::bigint as label
        from read_json('{place}/lines/*.json', format = 'newline_delimited', columns = {{{columns}}}) l
        left join w using (origin, time_hour) left join p using (tailnum)
        where dep_time is not null and arr_delay is not null
    """
    if form == "parquet":
        db.execute(f"create temp table r as {query}")
        for number in range(NUM_SHARDS):
            low, high = ((edge << 64) // NUM_SHARDS for edge in (number, number + 1))
            db.execute(
                f"copy (select * from r where key >= {low} and key < {high} order by key)"
                f" to '{out}/{number:05d}.parquet' (format parquet, compression zstd, compression_level 1)"
            )
        print(db.execute("select count(*) from r").fetchone()[0])
        return
    shards = Shards(out)
    reader = db.sql(f"{query} order by key").to_arrow_reader(1 << 17)
    for batch in reader:
        column = lambda name, batch=batch: batch.column(name).to_numpy(zero_copy_only=False)  # noqa: E731
        shards.write(column("key"), pack(column))
    shards.close()
    print(shards.num_records)


def bucket(place: int, text: str) -> str:
    """Return the hashed category at a place of ``indices``."""
    return f"(hash({text}, {place}) % 65536)::integer as i{place}"


def features() -> str:
    """Return the columns i0 to i19 and v0 to v13."""
    hour = "sched_dep_time // 100"
    categories = {
        0: "carrier", 1: "l.origin", 2: "dest", 3: "l.origin, dest", 4: "carrier, l.origin",
        5: "carrier, dest", 6: hour, 7: f"l.origin, {hour}", 8: f"carrier, {hour}",
        9: "sched_arr_time // 100", 10: "dayofweek(make_date(l.year, l.month, l.day))", 11: "l.month",
        12: "carrier, flight", 13: "coalesce(l.tailnum, '?')", 17: "l.origin, coalesce(wind, '?')",
    }  # fmt: skip
    indices = [bucket(place, text) for place, text in categories.items()]
    indices += [f"coalesce(i{place}, 0) as i{place}" for place in (14, 15, 16, 18, 19)]
    values = [
        "(distance - 1000) / 1000",
        "(sched_dep_time // 100 * 60 + sched_dep_time % 100 - 800) / 300",
        "coalesce((l.year - built - 11) / 10, 0)",
        "coalesce((seats - 140) / 80, 0)",
        "case when seats is null then 1 else 0 end",
        *[f"coalesce(v{number}, 0)" for number in range(5, NUM_VALUES - 1)],
        "coalesce(v13, 1)",
    ]
    columns = [f"({value})::float as v{number}" for number, value in enumerate(values)]
    return ", ".join([*indices, *columns])


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
