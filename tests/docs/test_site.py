"""The site: whole, without anything from outside, and with a search that works from a disk."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from docs.authors.screenshots.browser import Browser
from services._home import REPOSITORY
from services._packages import install_packages
from services._process import InstallError

TOOLS = REPOSITORY / ".venv-docs"
BUILD_S = 600.0
# What a user would type, and the page that has the answer.
SEARCHES = {
    "resume training": "tutorials/several-ranks.html",
    "OffsetOutOfRangeError": "reference/errors.html",
    "kafka credentials": "operations/connections.html",
    "backfill": "guides/trigger-and-backfill.html",
    "quarantine show": "reference/commands.html",
    "split_bytes": "reference/dataset.html",
    "convert csv": "tutorials/files.html",
    "state_dict": "reference/api/loader.html",
    "disk full": "reference/errors.html",
    "pytorch several ranks": "guides/loader.html",
    "late records": "concepts/boundaries.html",
    "scheduler ended": "operations/runbook.html",
}
# What a newcomer would type, in words that the pages need not have. The page comes first.
QUESTIONS = {
    "which days are missing": "operations/status.html",
    "undo a build": "operations/withdraw.html",
    "delete a user's records": "what-it-does-not-do.html",
    "alert when late": "operations/status.html",
    "s3": "guides/object-stores.html",
    "install wheel": "guides/install-the-reader.html",
    "prometheus": "operations/servers.html",
    "waive a gate": "operations/waivers.html",
    "parquet": "guides/conversion.html",
    "time zone": "guides/time-zones.html",
    "compare two versions": "operations/compare.html",
    "bad records": "operations/quarantine.html",
}
MISSED_QUESTIONS = 1
LOADING = {
    "script": "src",
    "link": "href",
    "img": "src",
    "iframe": "src",
    "source": "src",
    "video": "src",
    "object": "data",
}
# Links that only name where a page or a site lives, which no browser loads.
NAMING = {"canonical", "next", "prev", "alternate"}


def build(pages: Path, site: Path) -> subprocess.CompletedProcess[str]:
    """Build a folder of staged pages, as make docs-site does."""
    config = pages.parent / "mkdocs.yml"
    text = (REPOSITORY / "docs" / "mkdocs.yml").read_text()
    config.write_text(
        text.replace("../build/docs", str(pages))
        .replace("../site", str(site))
        .replace("../include", str(REPOSITORY / "include"))
    )
    return subprocess.run(
        [TOOLS / "bin" / "mkdocs", "build", "--strict", "--config-file", config],
        env={"PATH": "/usr/bin:/bin", "NO_MKDOCS_2_WARNING": "1", "LANG": "C.UTF-8"},
        capture_output=True,
        text=True,
        timeout=BUILD_S,
        check=False,
    )


def stage(pages: Path) -> None:
    subprocess.run([sys.executable, REPOSITORY / "docs" / "stage_site.py", pages], check=True)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    if not (TOOLS / ".done").exists():
        pytest.skip("make docs-site makes the environment that builds the site")
    folder = tmp_path_factory.mktemp("site")
    stage(folder / "pages")
    done = build(folder / "pages", folder / "site")
    assert done.returncode == 0, done.stderr
    return folder / "site"


class Loads(HTMLParser):
    """What a browser loads for a page, and where its links lead."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.anchors |= {found[name] for name in ("id", "name") if found.get(name)}
        if tag == "a" and found.get("href"):
            self.links.append(found["href"])
        name = LOADING.get(tag)
        if name and found.get(name) and not NAMING & set(found.get("rel", "").split()):
            self.loads.append(found[name])


def pages_of(site: Path) -> dict[str, Loads]:
    return {
        path.relative_to(site).as_posix(): Loads(path.read_text())
        for path in sorted(site.rglob("*.html"))
    }


def test_no_page_loads_anything_from_outside(site):
    pages = pages_of(site)
    assert len(pages) > 70
    outside = {
        (page, load)
        for page, parsed in pages.items()
        for load in parsed.loads
        if re.match(r"(https?:)?//", load)
    }
    assert not outside


def test_no_style_loads_anything_from_outside(site):
    for style in site.rglob("*.css"):
        assert not re.search(r"url\(\s*[\"']?(https?:)?//|@import", style.read_text()), style


def test_what_a_page_loads_is_there(site):
    for page, parsed in pages_of(site).items():
        for load in parsed.loads:
            if not load.startswith("data:"):
                place = site / page if page != "404.html" else site / "index.html"
                target = load.partition("?")[0].partition("#")[0]
                found = (site / target.lstrip("/")) if target[0] == "/" else place.parent / target
                assert found.exists(), (page, load)


def test_every_link_of_a_built_page_leads_to_a_page_and_to_a_place_in_it(site):
    pages = pages_of(site)
    for page, parsed in pages.items():
        for link in parsed.links:
            target, _, anchor = link.partition("#")
            if re.match(r"[a-z]+:", link) or page == "404.html":
                continue
            place = ((site / page).parent / target).resolve() if target else site / page
            assert place.exists(), (page, link)
            name = place.relative_to(site.resolve() if target else site).as_posix()
            if anchor and name in pages and anchor != "__skip":
                assert anchor in pages[name].anchors, (page, link)


def test_a_broken_link_fails_the_build(site, tmp_path):
    pages = tmp_path / "pages"
    stage(pages)
    with (pages / "start.md").open("a") as page:
        page.write("\n[nowhere](nowhere.md)\n")
    done = build(pages, tmp_path / "site")
    assert done.returncode != 0
    assert "nowhere.md" in done.stderr


def test_the_index_of_the_search_knows_every_page_that_users_look_for(site):
    index = json.loads((site / "search" / "search_index.json").read_text())
    known = {entry["location"].partition("#")[0] for entry in index["docs"]}
    assert set(SEARCHES.values()) <= known


def test_the_index_of_the_search_has_the_text_of_pages_without_that_of_drawings(site):
    index = json.loads((site / "search" / "search_index.json").read_text())
    pages = {entry["location"]: entry["text"] for entry in index["docs"]}
    order = pages["concepts/order.html"]
    assert "pure function of content digest" in order
    assert "laid in a row" in order  # below the drawing
    assert "chunks, permuted" not in order  # in the drawing


@pytest.fixture(scope="module")
def browser():
    try:
        install_packages({"chromium": "chromium", "chromedriver": "chromium-driver"})
    except InstallError as error:
        pytest.skip(str(error))
    assert shutil.which("chromedriver")
    with Browser() as browser:
        browser.view(1440, 900)
        yield browser


def found_in(site, browser, text):
    """The pages that a search finds, the best one first."""
    browser.open((site / "index.html").as_uri())
    browser.type("//input[@name='query']", text)
    results = "//ol[contains(@class, 'md-search-result__list')]"
    browser.find(f"{results}/li")
    first = browser.attribute(results, "innerHTML")
    links = re.findall(r'href="([^"?#]+)[^"]*"', first)
    return list(dict.fromkeys(link.partition("/site/")[2] or link for link in links))


@pytest.mark.timeout(600)
def test_the_search_finds_what_users_look_for_without_a_server(site, browser):
    for text, page in SEARCHES.items():
        found = found_in(site, browser, text)
        assert page in found[:3], (text, found[:8])


@pytest.mark.timeout(600)
def test_the_page_that_answers_a_question_comes_first(site, browser):
    found = {text: found_in(site, browser, text)[:3] for text in QUESTIONS}
    missed = {text: found[text] for text, page in QUESTIONS.items() if page not in found[text][:1]}
    assert len(missed) <= MISSED_QUESTIONS, missed


def test_the_search_leaves_out_the_pages_of_authors(site):
    index = json.loads((site / "search" / "search_index.json").read_text())
    assert not [
        each["location"] for each in index["docs"] if each["location"].startswith("authors")
    ]


def test_no_list_table_or_block_of_code_is_left_as_text(site):
    for path in site.rglob("*.html"):
        for paragraph in re.findall(r"<p>(.*?)</p>", path.read_text(), re.DOTALL):
            assert not re.search(r"\n\s*(?:[*-]|1\.) |\|\s*---|```", paragraph), path
