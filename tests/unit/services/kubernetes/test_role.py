"""The role that tests use is the one that the documentation asks for."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[4]
_BLOCK = re.compile(r'^```yaml title="role.yaml"\n(.*?)^```$', re.MULTILINE | re.DOTALL)


def _rules():
    role = yaml.safe_load((ROOT / "services/config/kubernetes/role.yaml").read_text())
    return [(group, kind, rule) for rule in role["rules"] for group in rule["apiGroups"]
            for kind in rule["resources"]]  # fmt: skip


def test_the_page_shows_the_role_of_the_tests():
    (shown,) = _BLOCK.findall((ROOT / "docs/operations/kubernetes.md").read_text())
    assert shown == (ROOT / "services/config/kubernetes/role.yaml").read_text()


def test_the_role_reads_no_secret_and_names_every_kind_and_verb():
    assert not any("secret" in kind for _, kind, _ in _rules())
    words = [word for *_, rule in _rules() for key in ("apiGroups", "resources", "verbs")
             for word in rule[key]]  # fmt: skip
    assert "*" not in words
