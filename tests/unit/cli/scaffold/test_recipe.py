"""The recipe of docs/guides/add-a-data-set.md, run as it stands there."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

from trainfeed.cli.scaffold import new_dataset
from trainfeed.core.config import environment_from_environ
from trainfeed.pipeline.local import build
from trainfeed.specification import load_spec
from trainfeed.versions import init_root

PAGE = Path(__file__).resolve().parents[4] / "docs" / "guides" / "add-a-data-set.md"


def test_lines_of_ones_own_are_recorded_and_built(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    datasets = Path("include/datasets")
    new_dataset(datasets, "clicks")
    row = {"visitor": 7, "pages": 3, "seconds": 9.5, "returning": True, "bought": False}
    stamps = [f"2026-01-0{day}T0{hour}:30:00+00:00" for day in (2, 1) for hour in range(9)]
    lines = [json.dumps({**row, "at": stamp}) for stamp in stamps]
    Path("clicks.jsonl").write_text("\n".join(lines) + "\n")
    section = PAGE.read_text().partition("\n## Your own records\n")[2].partition("\n## ")[0]
    (recipe,) = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    exec(compile(recipe, str(PAGE), "exec"), {})
    spec_file = datasets / "clicks" / "dataset.yaml"
    text = spec_file.read_text()
    text = text.replace("{path: ./sample}", "{path: ./recorded}").replace("min: 50", "min: 9")
    spec_file.write_text(text)
    spec = load_spec(spec_file.parent)
    env = replace(environment_from_environ(datasets=str(datasets)), kafka={})
    init_root(Path(env.root))
    report = build(spec, spec.schedule_model().interval_named("2026-01-01"), env)
    assert report.published.summary.samples == 9
