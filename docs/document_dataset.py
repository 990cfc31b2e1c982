"""Writes ``reference/dataset.md``: every field of dataset.yaml, from the schema that editors read.

Examples are taken from specifications that stand on the page and that are loaded here, so that each
field has one and each of them is right. A field without an example is an error.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from ruamel.yaml import YAML

from docs._writing import cell, write_or_check
from trainfeed.cli.scaffold import new_dataset
from trainfeed.specification import SPEC_FILE, json_schema, load_spec

_PAGE: Final = "reference/dataset.md"
_HEAD: Final = """\
# dataset.yaml

<!-- Written by `make docs` from the model of dataset.yaml and its docstrings. -->

The specification of a data set, `include/datasets/NAME/dataset.yaml`.
[Add a data set](../guides/add-a-data-set.md) shows how one is written;
`trainfeed schema` prints the JSON Schema that editors read, also in
[dataset.schema.json](../dataset.schema.json). A mistake is one message with file, line, field, what
was expected and the nearest name: [bad input](../operations/bad-input.md).

| in the file | means |
| --- | --- |
| duration | a whole number with `s`, `m`, `h` or `d`: `30m`, `2h` |
| size | a number of bytes, or one with `B`, `KiB`, `MiB` or `GiB`: `64KiB` |
| time | a date, or a time in UTC: `2013-01-01`, `2013-01-01T05:00:00Z`; with `tz` a day there |
| `module:name` | a function or class of a module in the data set's folder |
"""
# Every field is in one of these. Each is whole, can be copied, and is loaded here.
_EXAMPLES: Final = {
    "A topic": """\
name: clicks
description: Will the visitor buy something?
schedule: "@daily"
start: 2026-01-01
end: 2026-12-31
catchup: false
seed: 7
source:
  kafka:
    connection: kafka_default
    topic: clicks
    settle: 30m
    late: keep
    skew: 1d
    transaction_wait: 1h
    wait: 6h
    missing: fail
preprocess:
  function: "preprocess:make_sample"
  input: record
  engine: local
  connection: spark_default
  parameters: {session_minutes: 30}
lookups: {visitors: visitors.parquet}
keep_lookups: false
documents: [LICENCE.txt]
schema:
  visitor: {dtype: int64}
  features: {dtype: float32, shape: [3]}
  referrer: {dtype: str, optional: true}
  label: {dtype: int64}
split: {train: 0.9, eval: 0.1, by: [visitor]}
output:
  format: recordio
  codec: zstd
  level: 3
  chunk_bytes: 1MiB
  samples_per_shard: 100000
  positions: true
quality:
  - {check: count, min: 50, max: 100000000, severity: block}
  - {check: quarantine_ratio, max: 0.01, severity: block}
  - {check: late_ratio, of: late, max: 0.05, severity: warn}
  - {check: null_ratio, field: referrer, max: 0.5, severity: warn}
  - {check: range, field: label, min: 0, max: 1, severity: block}
train:
  entry: "train:main"
  window: 7
  launcher: local
  ranks: 2
  metric: accuracy
  min: 0.6
  wait: 1d
  model:
    name: clicks
    metrics:
      accuracy: {min: 0.6, better: higher, max_worse: 0.02}
      loss: {max: 0.7, better: lower}
    evaluate: "train:evaluate"
    predict: "train:predictor"
    labels: [label]
    complete: "train:complete"
    promote: approve
    download: {path: /models/start/clicks, connection: hdfs_default}
    upload: {path: /models, connection: hdfs_default}
  tracking: {tensorboard: true, mlflow: mlflow_default, experiment: clicks}
retention:
  keep_generations: 3
  keep_days: 400
  keep_withdrawn_days: 90
  keep_intervals: 1000
  keep_intervals_days: 1100
  max_bytes: 2000GiB
  plans: {keep: 10, keep_days: 30, max_bytes: 1GiB}
  landing: {keep_days: 30}
  work: {keep_days: 7}
  trainings: {keep: 100}
  models: {keep: 30, keep_days: 90}
  uploads: {keep_days: 400}
resources:
  pool: kafka_reads
  max_active_runs: 4
  records_per_task: 100000
  memory_bytes: 512MiB
  processes: 2
  worker_memory_bytes: 4GiB
  time_limit: 1h
""",
    "Folders of log files": """\
name: digits
schedule: "@daily"
start: 2026-01-01
source:
  logs:
    connection: hdfs_default
    path: "/logs/digits/dt={start:%Y-%m-%d}"
    done: _SUCCESS
    format: lines
    land: false
    settle: 0s
    wait: 2d
    missing: fail
    cut_line: keep
    split_bytes: 64MiB
    max_line_bytes: 1MiB
    long_lines: quarantine
    bytes_per_record: 90B
preprocess: {function: "preprocess:make_sample"}
schema:
  image: {dtype: uint8, shape: [8, 8]}
  label: {dtype: int64}
output: {codec: zstd, shards: 4}
""",
    "Folders of Parquet files": """\
name: rides
schedule: "@hourly"
start: 2026-01-01
source:
  logs:
    path: "/archive/rides/dt={start:%Y-%m-%d}/hour={start:%H}"
    format: parquet
    columns: [distance, fare, rider]
    bytes_per_record: 12B
preprocess: {function: "preprocess:make_sample", input: batch}
schema:
  distance: {dtype: float32}
  fare: {dtype: float32}
""",
    "Folders of CSV files": """\
name: rides
schedule: "@daily"
start: 2026-01-01
source:
  logs:
    path: "/exports/rides/{start:%Y-%m-%d}"
    format: csv
    fields: {distance: float64, fare: float64, rider: int64, city: str}
    csv: {delimiter: ";", quote: null, nulls: ["", NA]}
preprocess: {function: "preprocess:make_sample", input: batch}
schema:
  distance: {dtype: float32}
  fare: {dtype: float32}
""",
    "Folders that are complete when nothing in them changes": """\
name: visits
schedule: "0 * * * *"
start: 2026-01-01
source: {logs: {path: "/logs/visits/{start:%Y-%m-%d/%H}", stable: 10m}}
preprocess: {function: "preprocess:make_sample"}
schema:
  label: {dtype: int64}
""",
    "Days of a time zone": """\
name: orders
schedule: "@daily"
tz: Europe/Berlin
start: 2026-01-01
source: {logs: {path: "/logs/orders/{hour:%Y-%m-%d/%H}", tz: UTC}}
preprocess: {function: "preprocess:make_sample"}
schema:
  label: {dtype: int64}
""",
    "Gates": """\
name: visits
schedule: "@daily"
start: 2026-01-01
source: {kafka: {topic: visits}}
preprocess: {function: "preprocess:make_sample"}
lookups: {pages: pages.csv}
lookup_types: {pages: {visits: int64}}
schema:
  visit: {dtype: int64}
  page: {dtype: str}
  device: {dtype: str}
  label: {dtype: int8}
quality:
  - {check: unique, by: [visit], max: 0, severity: block}
  - {check: accepted_values, field: device, values: [phone, desktop], max: 0.001, severity: block}
  - {check: accepted_values, field: page, lookup: pages, column: path, severity: warn}
  - {check: share, field: label, equals: 1, min: 0.01, max: 0.2, severity: ask}
  - {check: relative_count, of: samples, versions: 7, min: 0.5, max: 2, severity: ask}
  - {check: shard_skew, of: bytes, max: 2, severity: warn}
  - check: drift
    fields: [page, device, label]
    ignore: [device]
    reference: 7
    history: 30
    factor: 1.5
    floor: {absent: 0.01, psi: 0.05, ks: 0.05, mean: 0.15}
    severity: warn
  - check: schema_evolution
    added_optional: allow
    added_required: warn
    removed: warn
    widened: allow
    narrowed: warn
    incompatible: block
    shape: block
    made_optional: warn
    made_required: allow
    writer_added: allow
    writer_removed: warn
    writer_changed: block
    severity: block
""",
    "A training on a cluster": """\
name: clicks
schedule: "@daily"
start: 2026-01-01
source: {kafka: {topic: clicks}}
preprocess: {function: "preprocess:make_sample"}
schema:
  label: {dtype: int64}
train:
  entry: "train:main"
  launcher: indexed-job
  connection: kubernetes_default
  ranks: 8
  image: "r.example/clicks@sha256:2ff0ea9b8c1a3e6a54d2f8cbd5ee0dc1a2c9e1f4e3b6f3f6a1f0f2f0d1c2b3a4"
  cpu: 4
  memory: 32GiB
  gpu: {type: nvidia.com/gpu, number: 1}
  shared_memory: 8GiB
  environment: {EPOCHS: "3"}
  volumes: [scratch]
  node_selector: {zone: a}
  tolerations: [{key: gpu, operator: Equal, value: training, effect: NoSchedule}]
  image_pull_secret: registry
  queue: nightly
  priority: low
  time_limit: 6h
  retries: 2
""",
    "A training by a program of an image": """\
name: clicks
schedule: "@daily"
start: 2026-01-01
source: {kafka: {topic: clicks}}
preprocess: {function: "preprocess:make_sample"}
schema:
  label: {dtype: int64}
train:
  launcher: pytorch-job
  ranks: 4
  image: "r.example/clicks:nightly"
  allow_tag: true
  command: [torchrun, train.py]
""",
    "Labels that people upload": """\
name: clicks
schedule: "@daily"
start: 2026-01-01
source: {kafka: {topic: clicks}}
preprocess: {function: "preprocess:make_sample"}
schema:
  click: {dtype: int64}
  price: {dtype: float32}
  label: {dtype: int8}
uploads:
  key: [click]
  labels: [label]
  join: left
  defaults: {label: -1}
  max_file_bytes: 1GiB
""",
    "Uploads that samples need": """\
name: clicks
schedule: "@daily"
start: 2026-01-01
source: {kafka: {topic: clicks}}
preprocess: {function: "preprocess:make_sample"}
schema:
  click: {dtype: int64}
  label: {dtype: int8}
uploads: {key: [click], labels: [label], join: inner, wait: 7d, missing: skip}
""",
    "An archive of files until some day, a topic from then on": """\
name: rentals
schedule: "@daily"
start: 2020-01-01
sources:
  - recorded: {path: ./first-year}
    until: 2021-01-01
  - iceberg: {table: shop.rentals}
    until: 2022-01-01
  - logs: {path: "/rentals/{start:%Y-%m-%d}/{hour:%H}"}
    until: 2026-02-01
  - kafka: {topic: rentals}
    until: 2026-06-01
  - union: {north: {kafka: {topic: rentals}}, south: {kafka: {topic: rentals-south}}}
preprocess: {function: "preprocess:make_sample"}
schema:
  label: {dtype: int64}
""",
    "Topics of two clusters, and the files of a partner": """\
name: clicks
schedule: "@daily"
start: 2026-01-01
source:
  union:
    eu: {kafka: {connection: kafka_eu, topic: clicks, settle: 30m}}
    us: {kafka: {connection: kafka_us, topic: clicks, settle: 6h, late: separate}}
    partner: {logs: {path: "/partner/{start:%Y-%m-%d}", wait: 12h, missing: empty}}
preprocess: {function: "preprocess:make_sample"}
schema:
  label: {dtype: int64}
""",
    "A topic behind a schema registry": """\
name: clicks
schedule: "@daily"
start: 2026-01-01
source:
  kafka:
    topic: clicks
    value: {format: protobuf, registry: registry_default, schema: click.proto, message: shop.Click}
    key: {format: avro, registry: registry_default, schema: click-key.avsc}
preprocess: {function: "preprocess:make_sample", input: batch}
schema:
  label: {dtype: int64}
""",
    "A recorded topic of Avro": """\
name: clicks
schedule: "@daily"
start: 2026-01-01
source:
  recorded:
    path: ./sample
    value: {format: avro, schema: click.avsc}
    key: {format: bytes}
preprocess: {function: "preprocess:make_sample"}
schema:
  label: {dtype: int64}
""",
    "A table of Iceberg": """\
name: clicks
schedule: "@daily"
start: 2026-01-01
source:
  iceberg:
    catalog: catalog_default
    table: shop.clicks
    columns: [user, item, label]
    settle: 10m
    wait: 6h
    missing: fail
    split_bytes: 64MiB
    bytes_per_record: 64B
preprocess: {function: "preprocess:make_sample", input: batch}
schema:
  label: {dtype: int64}
""",
    "A recorded topic": """\
name: clicks
schedule: "@daily"
start: 2026-01-01
source: {recorded: {path: ./sample, settle: 0s, late: keep, skew: 1d, wait: 0s, missing: empty}}
preprocess: {function: "preprocess:make_sample"}
schema:
  label: {dtype: int64}
""",
}
_SIZE_UNITS: Final = (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))
_TITLE: Final = "The whole file"
_COLUMNS: Final = (
    "| field | takes | default | example | what it is |\n| --- | --- | --- | --- | --- |"
)
# What stands beside the named fields, where any name may.
_OTHERS: Final = {
    "SplitSpec": "| any other name | number above 0, to 1 | - | `0.9` | Share of the split of this"
    " name; all shares together are 1. |"
}

# Their kinds are those of ``source``, whose sections stand before them.
_AS_SOURCE: Final = frozenset({"sources", "source.union"})

Schema = Mapping[str, Any]


def documents() -> Mapping[str, str]:
    """The text of the page, by its name."""
    reference = _Reference()
    for text in _EXAMPLES.values():
        _load(text)
        reference.learn(reference.root, _parsed(text))
    lines = [_HEAD, *reference.sections("", reference.root), "## Whole examples\n"]
    lines += [f"### {title}\n\n```yaml\n{text}```\n" for title, text in _EXAMPLES.items()]
    return {_PAGE: "\n".join(lines)}


def _parsed(text: str) -> Any:
    return YAML(typ="safe", pure=True).load(text)


def _load(text: str) -> None:
    """Load a specification as trainfeed does; raises its SpecError if it is wrong."""
    with tempfile.TemporaryDirectory() as folder:
        name = str(_parsed(text)["name"])
        new_dataset(folder, name)
        place = Path(folder) / name
        (place / "visitors.parquet").touch()
        (place / SPEC_FILE).write_text(text, encoding="utf-8")
        load_spec(place)


class _Reference:
    """The schema, and an example of every field in it."""

    def __init__(self) -> None:
        self.root = json_schema()
        self._examples: dict[tuple[int, str], Any] = {}

    def learn(self, part: Schema, value: Any) -> None:
        """Note the first example of every field of a part of a specification."""
        for each in value if isinstance(value, list) else [value]:
            for model in self._models(part) if isinstance(each, dict) else ():
                if _fits(model, each):
                    for name, below in each.items():
                        self._examples.setdefault((id(model), name), below)
                        self.learn(_field(model, name), below)

    def sections(self, path: str, part: Schema) -> Iterator[str]:
        """Yield a section for a part and for those below it."""
        for model in self._models(part):
            fields = model.get("properties", {})
            if fields:
                yield f"{_heading(path, fields)}\n\n{model.get('description', '')}\n"
                yield _COLUMNS
                yield from (self._row(model, name) for name in fields)
                if isinstance(model.get("additionalProperties"), dict):
                    yield _OTHERS[model["title"]]
                yield ""
            if path in _AS_SOURCE:
                continue
            for name, field in fields.items():
                yield from self.sections(f"{path}.{name}".lstrip("."), field)
            for field in model.get("patternProperties", {}).values():
                yield from self.sections(f"{path}.FIELD", field)

    def _row(self, model: Schema, name: str) -> str:
        field = model["properties"][name]
        try:
            example = self._examples[id(model), name]
        except KeyError:
            raise SystemExit(f"no example has {name} of {model.get('title')}: add it") from None
        default = "**required**" if name in model.get("required", ()) else _default(field)
        cells = (f"`{name}`", self._takes(field), default, _shown(example), field["description"])
        return f"| {' | '.join(cell(text) for text in cells)} |"

    def _takes(self, part: Schema) -> str:
        part = self._meant(part)
        if "enum" in part or "const" in part:
            return ", ".join(f"`{value}`" for value in part.get("enum", [part.get("const")]))
        if kinds := part.get("anyOf") or part.get("oneOf"):
            names = [self._takes(kind) for kind in kinds if kind.get("type") != "null"]
            return "size" if _is_size(part) else " or ".join(dict.fromkeys(names))
        if part.get("type") == "array":
            return f"list: {self._takes(part['items'])}"
        if part.get("type") == "object":
            return "mapping"
        return _text(part) if part.get("type") == "string" else _number(part)

    def _models(self, part: Schema) -> Iterator[Schema]:
        """Yield the objects that a part may be, or may be a list of."""
        part = self._meant(part)
        if part.get("type") == "object":
            yield part
        below = [*part.get("anyOf", ()), *part.get("oneOf", ()), part.get("items")]
        seen: list[Schema] = []
        for kind in filter(None, below):
            for model in self._models(kind):
                if not any(model is other for other in seen):
                    seen.append(model)
                    yield model

    def _meant(self, part: Schema) -> Schema:
        name = str(part.get("$ref", "")).removeprefix("#/$defs/")
        return self.root["$defs"][name] if name else part


def _fits(model: Schema, value: Mapping[str, Any]) -> bool:
    """Whether a mapping is of this model; its field ``check`` tells the gates apart."""
    check = model.get("properties", {}).get("check", {}).get("const")
    return check is None or check == value.get("check")


def _field(model: Schema, name: str) -> Schema:
    others = [*model.get("patternProperties", {}).values(), {}]
    return model.get("properties", {}).get(name, others[0])


def _heading(path: str, fields: Schema) -> str:
    check = fields.get("check", {}).get("const")
    title = f"`{path}`" if path else _TITLE
    return f"## {title}" if check is None else f"## {title}, check `{check}`"


def _default(field: Schema) -> str:
    if "default" not in field:
        return "-"
    value = field["default"]
    if _is_size(field):
        unit, factor = next((u for u in _SIZE_UNITS if value % u[1] == 0), ("", 1))
        return f"`{value // factor}{unit}`"
    return _shown(value) if value != "" else "empty"


def _is_size(field: Schema) -> bool:
    return any("MiB" in kind.get("pattern", "") for kind in field.get("anyOf", ()))


def _text(part: Schema) -> str:
    pattern, examples = part.get("pattern", ""), part.get("examples", [""])
    if "(s|m|h|d)" in pattern:
        return "duration"
    if "[0-9]{4}" in pattern or examples[0].startswith("20"):
        return "time"
    return "`module:name`" if ":" in pattern and "?" not in pattern else "text"


def _number(part: Schema) -> str:
    kind = {"integer": "whole number", "number": "number", "boolean": "`true`, `false`"}[
        part["type"]
    ]
    least = part.get("minimum")
    most = part.get("maximum", part.get("exclusiveMaximum"))
    if most is not None:
        return f"{kind}, {least} to {most if 'maximum' in part else '2^64 - 1'}"
    return kind if least is None else f"{kind} from {least} on"


def _shown(value: Any) -> str:
    """Return a value as a file has it, on one line; a long value is cut."""
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    if isinstance(value, dict) and all(isinstance(each, str) for each in parts):
        return f"`{{{', '.join(f'{name}: {each}' for name, each in value.items())}}}`"
    if isinstance(value, dict) or any(isinstance(each, dict) for each in parts):
        return "below"
    return f"`{value}`".replace("'", "")


if __name__ == "__main__":
    write_or_check(documents(), sys.argv[1:])
