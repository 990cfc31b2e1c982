"""Pages that files name are there: paths of docs/ in any file, relative links of every page."""

import json
import re
import subprocess
from pathlib import Path

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

ROOT = Path(__file__).parents[3]
FENCES = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
# Names that tests make up are not among them: a page ends in .md, and so do the names it goes by.
PAGE = re.compile(r"(?<![\w/.-])docs/(?:[\w-]+/)*[\w-]+\.md\b|(?<![\w/.-])docs/[\w/-]*adr/\d{4}\b")
LINK = re.compile(r"\]\((?![a-z]+:)([^)#\s]*)(?:#([^)\s]*))?\)")


def tracked():
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    for name in filter(None, listed.stdout.decode().split("\0")):
        path = ROOT / name
        if path.is_file() and b"\0" not in path.read_bytes()[:4096]:
            yield name, path.read_text(errors="replace")


TEXTS = dict(tracked())
MARKDOWN = sorted(name for name in TEXTS if name.endswith(".md"))


def anchors(text):
    """Return the anchors of the headings, made as GitHub and the site make them."""
    found = set()
    for heading in re.findall(r"^#+ +(.+)$", FENCES.sub("", text), re.MULTILINE):
        words = re.sub(r"[^\w\s-]", "", heading.replace("`", "").lower())
        found.add(re.sub(r"\s", "-", words.strip()))
    return found | set(re.findall(r'<a (?:id|name)="([^"]+)"', text))


def test_every_page_that_a_file_names_is_there():
    named = {(name, page) for name, text in TEXTS.items() for page in PAGE.findall(text)}
    assert len(named) > 50
    there = set(MARKDOWN)
    missing = [each for each in named if not any(page.startswith(each[1]) for page in there)]
    assert not missing


def lost_links(page):
    """Yield the relative links of a page that lead to no file, or to no heading of a page."""
    for target, anchor in LINK.findall(FENCES.sub("", TEXTS[page])):
        place = (ROOT / page).parent / target if target else ROOT / page
        if not place.exists():
            yield f"{page}: {target}"
        elif anchor and place.suffix == ".md" and anchor not in anchors(place.read_text()):
            yield f"{page}: {target}#{anchor}"


def test_every_relative_link_of_a_page_leads_to_a_file_and_to_a_heading():
    assert len(MARKDOWN) > 50
    assert not [lost for page in MARKDOWN for lost in lost_links(page)]


def snippets():
    for page in MARKDOWN:
        for block in re.finditer(
            r"^```(\w+)[^\n]*\n(.*?)^```", TEXTS[page], re.DOTALL | re.MULTILINE
        ):
            if block[1] in READS:
                line = TEXTS[page].count("\n", 0, block.start()) + 1
                yield f"{page}:{line}", block[1], block[2]


READS = {
    "python": lambda text: compile(text, "snippet", "exec"),
    "py": lambda text: compile(text, "snippet", "exec"),
    "yaml": YAML(typ="safe", pure=True).load,
    "json": json.loads,
}


def unread(language, text):
    """What is wrong with a snippet, or "" if it can be read and says something."""
    try:
        return "" if READS[language](text) is not None else "nothing in it"
    except (SyntaxError, ValueError, YAMLError) as error:
        return str(error) or type(error).__name__


def test_every_snippet_of_a_page_can_be_read():
    found = list(snippets())
    assert len(found) > 50
    assert not [(place, wrong) for place, *what in found if (wrong := unread(*what))]
