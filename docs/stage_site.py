"""Put the sources of the site into one folder: ``python docs/stage_site.py FOLDER``.

A generator of sites reads one folder of pages. Here that is a copy of docs/ in which the pages at
the root of the repository have a place, a link to any other file outside docs/ is its text (a site
stands alone and has no such file), drawings stand in their pages, so that they take their colours,
and the decisions have a list. The generator knows nothing of this and can be another one.
"""

from __future__ import annotations

import html
import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

DOCS: Final = Path(__file__).resolve().parent
ROOT: Final = DOCS.parent
# Page at the root of the repository → page of the site.
ROOT_PAGES: Final = {
    "ARCHITECTURE.md": "authors/architecture.md",
    "CHANGELOG.md": "authors/changelog.md",
    "CONTRIBUTING.md": "authors/contributing.md",
}
# The README is the front page of the repository; the site has one of its own.
PAGE_OF: Final = {**ROOT_PAGES, "README.md": "index.md"}
NO_PAGES: Final = (".py", ".pyc", "mkdocs.yml")
# The search is for users: it leaves out the pages of authors.
AUTHORS: Final = "authors/"
# How much more, or less, a page counts in the search than others.
BOOSTS: Final = {
    "reference/api/": 0.5,
    "guides/": 1.5,
    "concepts/": 2,
    "tutorials/": 2,
}
# Words that a reader may look for, and that the page does not have, or not in its title.
SYNONYMS: Final = {
    "concepts/glossary.md": "words terms vocabulary definitions meaning",
    "guides/add-a-data-set.md": "new dataset own data create define",
    "guides/conversion.md": "parquet csv json webdataset tar libsvm arrow reshard shuffle export",
    "guides/frameworks.md": "pytorch torch lightning jax tensorflow keras paddle huggingface",
    "guides/gates.md": "quality checks validation expectations thresholds",
    "guides/install-the-reader.md": "install wheel pip pypi package image docker trainer",
    "guides/models.md": "promote rollback registry production candidate",
    "guides/prediction.md": "inference serve serving score online",
    "guides/mirrors.md": "copy replicate replica backup sync distcp second site disaster recovery",
    "guides/object-stores.md": "s3 bucket minio ceph radosgw aws object store",
    "guides/reading-from-afar.md": "remote cache hdfs https streaming object store local disk",
    "guides/schema-registry.md": "avro protobuf confluent apicurio wire format",
    "guides/tags.md": "pin freeze release snapshot same data again label versions",
    "guides/time-zones.md": "timezone time zone tz local day dst daylight saving summer",
    "guides/trigger-and-backfill.md": "history past days rerun manual run",
    "operations/compare.md": "diff compare differ changed between versions",
    "operations/deploy.md": "docker compose production install team server",
    "operations/lineage.md": "provenance which model read used origin trace",
    "operations/outdated.md": "stale rebuild code changed bring-forward",
    "operations/quarantine.md": "bad rejected invalid broken records rows dead letter",
    "operations/repair.md": "corrupt damaged bit flip checksum mismatch backup",
    "operations/servers.md": "prometheus metrics tls token audit",
    "operations/retention.md": "delete old cleanup disk space prune remove expire",
    "operations/status.md": "missing days late alert monitor freshness complete gaps cron",
    "operations/upgrading.md": "update migrate version change release",
    "operations/waivers.md": "override ignore failed gate publish anyway",
    "operations/withdraw.md": "undo revert roll back hide build bad version",
    "reference/errors.md": "exception message disk full",
    "tutorials/several-sources.md": "union merge join topics folders clusters two sources",
    "what-it-does-not-do.md": (
        "limits limitations features s3 windows delta gdpr privacy erase delete user users person"
        " records streaming"
    ),
}
DECISIONS: Final = "authors/adr"
FENCES: Final = re.compile(r"(^```.*?^```)", re.DOTALL | re.MULTILINE)
LINK: Final = re.compile(r"(?<!!)\[((?:`[^`]*`|[^\[\]`])*)\]\((?![a-z]+:|#)([^)#\s]+)(#[^)\s]*)?\)")
# A list right behind a line of text: the site's Markdown wants an empty line between them, as it
# does around a block of code.
LIST: Final = re.compile(r"^((?![*-] |[#|>\s]|\d+\. ).+)\n(?=(?:[*-]|\d+\.) )", re.MULTILINE)
DRAWING: Final = re.compile(r"^!\[([^\]]*)\]\(([^)\s]+\.svg)\)$", re.MULTILINE)


def main(folder: Path) -> None:
    """Make the folder again from nothing."""
    shutil.rmtree(folder, ignore_errors=True)
    for path in DOCS.rglob("*"):
        name = path.relative_to(DOCS).as_posix()
        if path.is_file() and not name.endswith(NO_PAGES):
            write(folder / name, page(f"docs/{name}") if path.suffix == ".md" else path)
    for source, name in ROOT_PAGES.items():
        write(folder / name, page(source))
    page_of_decisions = f"{DECISIONS}/README.md"
    write(folder / page_of_decisions, head(page_of_decisions) + "\n".join(decisions()))


def write(target: Path, content: str | Path) -> None:
    """Write a text, or copy a file."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, Path):
        shutil.copyfile(content, target)
    else:
        target.write_text(content, encoding="utf-8")


def page(source: str) -> str:
    """Return the text of a page as the site has it; ``source`` is its path in the repository."""
    parts = FENCES.split((ROOT / source).read_text(encoding="utf-8"))
    here = place(source) or ""
    return head(here) + "".join(
        f"\n{part}\n" if part.startswith("```") else changed(part, source) for part in parts
    )


def head(here: str) -> str:
    """Return what the search is told about a page of the site."""
    if here.startswith(AUTHORS):
        return "---\nsearch: {exclude: true}\n---\n"
    boost = next((boost for folder, boost in BOOSTS.items() if here.startswith(folder)), 1)
    words = ", ".join(SYNONYMS.get(here, "").split())
    return f"---\nsearch: {{boost: {boost}}}\ntags: [{words}]\n---\n"


def changed(text: str, source: str) -> str:
    """Return text outside of code with its links and drawings as the site has them."""
    here = (ROOT / source).parent

    def draw(image: re.Match[str]) -> str:
        drawing = (here / image[2]).read_text(encoding="utf-8")
        label = f'<svg role="img" aria-label="{html.escape(image[1])}" '
        inside = drawing.replace("<svg ", label, 1)
        return f'<div class="drawing" data-search-exclude>\n{inside}</div>'

    text = LIST.sub(r"\1\n\n", DRAWING.sub(draw, text))
    return LINK.sub(lambda link: led(link, source), text)


def led(link: re.Match[str], source: str) -> str:
    """Return a link that leads to the page of the site, or its text if there is none."""
    path = os.path.normpath(Path(source).parent / link[2])
    here, there = place(source), place(path)
    if there is None or here is None:
        return link[1]
    return f"[{link[1]}]({os.path.relpath(there, Path(here).parent)}{link[3] or ''})"


def place(path: str) -> str | None:
    """Return where the site has a file of the repository, or None."""
    if path == f"docs/{DECISIONS}":
        return f"{DECISIONS}/README.md"
    if path.startswith("docs/") and not (ROOT / path).is_dir():
        return path.removeprefix("docs/")
    return PAGE_OF.get(path)


def decisions() -> Iterator[str]:
    """Yield the lines of the list of decisions."""
    yield "# Decisions\n\nWhat was decided, and why, a page each; one that is replaced says so.\n"
    for path in sorted((DOCS / DECISIONS).glob("[0-9]*.md")):
        title = path.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
        number, _, words = title.partition(". ")
        yield f"* [{number}]({path.name}): {words}"
    yield ""


if __name__ == "__main__":
    main(Path(sys.argv[1]))
