"""docs/stage_site.py turns links, drawings and lists into the form that the site needs."""

import re
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from docs import stage_site

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("source", "link", "expected"),
    [
        ("docs/guides/loader.md", "[x](b.md#c)", "[x](b.md#c)"),
        (
            "docs/guides/loader.md",
            "[x](../../ARCHITECTURE.md#c)",
            "[x](../authors/architecture.md#c)",
        ),
        ("docs/guides/loader.md", "[x](../authors/adr)", "[x](../authors/adr/README.md)"),
        ("docs/guides/loader.md", "[x](../../include/datasets/flights)", "x"),
        ("README.md", "[x](docs/start.md)", "[x](start.md)"),
        ("CONTRIBUTING.md", "[x](ARCHITECTURE.md)", "[x](architecture.md)"),
        ("CONTRIBUTING.md", "[`x`](docs/authors/measured.md)", "[`x`](measured.md)"),
        ("docs/guides/loader.md", "[x](https://example.org/)", "[x](https://example.org/)"),
        ("docs/guides/loader.md", "![x](../authors/screenshots/trigger.png)", None),
    ],
)
def test_a_link_leads_to_the_page_of_the_site_or_is_its_text(source, link, expected):
    assert stage_site.changed(link, source) == (expected or link)


def test_a_drawing_stands_in_its_page_with_what_it_shows():
    drawn = stage_site.changed("![Who & what](order.svg)", "docs/concepts/order.md")
    assert drawn.startswith(
        '<div class="drawing" data-search-exclude>\n<svg role="img" aria-label="Who &amp; what" '
    )
    assert drawn.endswith("</svg>\n</div>")


def test_a_list_behind_a_line_of_text_gets_an_empty_line():
    text = "Two things:\n* one\n  goes on\n* two\n\n| a |\n| - |\n"
    changed = stage_site.changed(text, "docs/start.md")
    assert changed == text.replace("things:\n", "things:\n\n")


def test_code_is_left_as_it_is(monkeypatch, tmp_path):
    code = "```\n# [x](nowhere.md)\nfor:\n- a\n```"
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "start.md").write_text(f"Text:\n{code}\nmore")
    monkeypatch.setattr(stage_site, "ROOT", tmp_path)
    assert code in stage_site.page("docs/start.md")


def test_the_staged_pages_are_all_pages_and_each_has_its_place_in_the_navigation(tmp_path):
    stage_site.main(tmp_path / "pages")
    pages = {str(path.relative_to(tmp_path / "pages")) for path in tmp_path.rglob("*.md")}
    of_docs = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")}
    assert of_docs | set(stage_site.ROOT_PAGES.values()) | {"authors/adr/README.md"} == pages
    assert not list(tmp_path.rglob("*.py"))
    text = (ROOT / "docs" / "mkdocs.yml").read_text()
    nav = YAML(typ="safe", pure=True).load(text.partition("\nnav:\n")[2])
    named = re.findall(r"'([\w/.-]+\.md)'", str(nav))
    decisions = {page for page in pages if re.match(r"authors/adr/\d", page)}
    assert sorted(named) == sorted(pages - decisions)


def test_the_decisions_are_listed_with_their_titles():
    lines = list(stage_site.decisions())
    assert "* [3](0003-commit.md): Publishing is one rename, and nothing after it can fail" in lines
    assert len(lines) == 2 + len(list((ROOT / "docs/authors/adr").glob("[0-9]*.md")))


def test_the_search_knows_synonyms_of_pages_and_leaves_out_those_of_authors():
    pages = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")}
    assert set(stage_site.SYNONYMS) <= pages
    assert "undo" in stage_site.head("operations/withdraw.md")
    assert stage_site.head("authors/measured.md") == "---\nsearch: {exclude: true}\n---\n"
