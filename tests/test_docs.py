"""The pages under docs/ fit the code: links, examples, and names that must be explained."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import get_args

import pytest

from placewright.instances.documents.plan import Certificate, DecisionKind, Reason
from placewright.instances.errors import InvalidInputError
from placewright.instances.io.files import load
from placewright.instances.policies import term_names
from placewright.instances.verify import rule_ids

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
WRITTEN = sorted(page for page in DOCS.rglob("*.md") if page.parent.name != "gallery")
"""The pages, but for those that the build of the site makes."""

PAGES = [
    *sorted(ROOT.glob("*.md")),
    ROOT / "benchmarks" / "README.md",
    ROOT / "fuzz" / "README.md",
    *WRITTEN,
]
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)\s]*)?\)")
ANCHOR = re.compile(r"\]\(([^)#\s]*\.md)?#([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.*)$", flags=re.MULTILINE)
PATH = re.compile(r"`((?:[\w.-]+/)+(?:[\w-]+\.(?:py|md|yaml|toml|svg))?|\w+\.py)`")
"""A file or folder in backticks."""

NAME = re.compile(r"`(\w+(?:\.(?!py`)\w+)*)`")

DOCUMENT = re.compile(r"^```yaml\n(apiVersion: .*?)^```$", flags=re.MULTILINE | re.DOTALL)


FENCED = re.compile(r"^(`{3,})[^\n]*\n.*?^\1$", flags=re.MULTILINE | re.DOTALL)
TABLES_MADE = {"gains.md", "references.md"}
"""Pages of benchmarks whose tables are made from rows."""


def ids(page: Path) -> str:
    return str(page.relative_to(ROOT))


def test_pages_have_at_most_so_many_words_written_by_hand():
    """Code blocks are not counted, nor what programs write."""
    made = {*runpy.run_path(str(DOCS / "write_reference.py"))["PAGES"], "fields.md"}
    count = 0
    for page in (ROOT / "README.md", *WRITTEN):
        text = FENCED.sub("", page.read_text())
        if page.name in TABLES_MADE:
            text = re.sub(r"^\|.*$", "", text, flags=re.MULTILINE)
        count += 0 if page.name in made else len(text.split())
    assert count <= 50_000


@pytest.mark.parametrize("page", PAGES, ids=ids)
def test_every_link_inside_the_repository_leads_somewhere(page):
    for target in LINK.findall(page.read_text()):
        assert target.startswith("https://") or (page.parent / target).exists(), target


@pytest.mark.parametrize("page", PAGES, ids=ids)
def test_every_link_to_a_heading_finds_it(page):
    for target, anchor in ANCHOR.findall(page.read_text()):
        headings = HEADING.findall((page.parent / (target or page.name)).read_text())
        slugs = {re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-") for text in headings}
        assert anchor in slugs, f"{target}#{anchor}"


def test_every_page_can_be_reached_from_the_readme():
    reached, waiting = set(), [ROOT / "README.md"]
    while waiting:
        here = waiting.pop()
        if here.suffix == ".md" and here not in reached:
            reached.add(here)
            targets = [(here.parent / t).resolve() for t in LINK.findall(here.read_text())]
            waiting += [target for target in targets if target.is_file()]
    assert set(WRITTEN) <= reached


@pytest.fixture(scope="module")
def module_names() -> set[str]:
    folders = (ROOT / "tests", *(path.parent for path in ROOT.glob("*/__init__.py")))
    return {path.name for folder in folders for path in folder.rglob("*.py")}


@pytest.mark.parametrize(
    "page",
    [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *WRITTEN],
    ids=ids,
)
def test_every_file_that_a_page_names_exists(page, module_names):
    """Paths begin at the root, or at a folder that the page has a link to."""
    text = page.read_text()
    linked = (page.parent / target for target in LINK.findall(text))
    bases = (ROOT, *(path for path in linked if path.is_dir()))
    for name in PATH.findall(text):
        assert name in module_names or any((base / name).exists() for base in bases), name


@pytest.fixture(scope="module")
def words() -> set[str]:
    folders = [*(each.parent for each in ROOT.glob("*/__init__.py")), ROOT / "tests" / "support"]
    modules = (path for each in folders for path in each.rglob("*.py"))
    return {word for path in modules for word in re.findall(r"\w+", path.read_text())}


@pytest.mark.parametrize(
    "page",
    [
        *(ROOT / "CONTRIBUTING.md", DOCS / "architecture.md", DOCS / "bounds.md"),
        *sorted((DOCS / "how-to").glob("*.md")),
        *sorted((DOCS / "formulations").glob("*.md")),
    ],
    ids=ids,
)
def test_every_name_with_an_underscore_is_one_of_the_code(page, words):
    names = {name for name in NAME.findall(page.read_text()) if "_" in name}
    assert {name for name in names if not words.issuperset(name.split("."))} == set()


def test_every_document_shown_as_an_example_is_valid(tmp_path):
    examples = DOCUMENT.findall((DOCS / "file-formats.md").read_text())
    kinds = set()
    for number, text in enumerate(examples):
        file = tmp_path / f"{number}.yaml"
        file.write_text(text)
        kinds.add(load(file).kind)
    assert kinds == {"Cluster", "Round", "Plan"}


def test_the_quantity_that_the_page_calls_refused_is_refused(tmp_path):
    file = tmp_path / "bare.yaml"
    page = (DOCS / "file-formats.md").read_text()
    text = next(example for example in DOCUMENT.findall(page) if "memory" in example)
    file.write_text(re.sub(r"memory: \w+", "memory: 64", text, count=1))
    with pytest.raises(InvalidInputError, match="a bare number could be bytes"):
        load(file)


@pytest.mark.parametrize(
    "name",
    [
        *term_names(),
        *(reason.value for reason in Reason),
        *(kind.value for kind in DecisionKind),
        *get_args(Certificate.model_fields["status"].annotation),
        *rule_ids(),
    ],
)
def test_the_reference_explains_each_name_that_a_plan_or_a_verification_uses(name):
    references = (DOCS / "reference" / f"{page}.md" for page in ("rules", "terms"))
    pages = (DOCS / "glossary.md", *references)
    assert any(f"`{name}`" in page.read_text() for page in pages)
