"""Snippets of Python in the documentation pass mypy strict, each page as one program."""

import ast
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from placewright import Tenant, verify

ROOT = Path(__file__).parents[1]
PAGES = {
    "docs/library.md": """
from placewright import Tenant, load_round, verify
round_ = load_round("round.yaml")
""",
    "docs/tour.md": "",
    "docs/tutorial.md": "",
    "docs/how-to/enter-the-benchmark.md": "",
    "docs/how-to/what-if.md": "",
    "docs/how-to/why-is-it-pending.md": "",
    "docs/how-to/replay.md": "",
    "docs/how-to/your-own-formulation.md": "",
    "docs/how-to/add-a-policy.md": "from placewright.instances.policies import PolicySpec",
}
"""Pages with snippets, and what they leave out."""


OPTIONS = ("--strict", "--config-file=", "--follow-imports=silent", "--allow-redefinition")
"""As somebody runs mypy who has no configuration: without a plugin."""


def snippets(page: Path) -> list[str]:
    """Return the programs of a page: fenced as Python, in the library's page indented."""
    text = page.read_text()
    found = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    if page.name == "library.md":
        found += re.findall(r"(?:^    .*\n|^\n(?=    ))+", text, re.MULTILINE)
    return [one for one in map(textwrap.dedent, found) if is_program(one)]


def is_program(text: str) -> bool:
    """Whether a text is a program of more than a signature."""
    try:
        body = ast.parse(text).body
    except SyntaxError:
        return False
    return not all(isinstance(one, ast.Expr | ast.FunctionDef) for one in body)


def test_every_page_with_snippets_is_checked():
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    found = {str(page.relative_to(ROOT)) for page in pages if snippets(page)}
    assert found == set(PAGES)


def test_the_first_page_of_the_library_solves_on_a_graph():
    first, second, *_ = snippets(ROOT / "docs" / "library.md")
    assert first.strip().count("\n") < 25
    names: dict[str, Any] = {"Tenant": Tenant, "verify": verify}
    exec(first, names)
    held, plan = names["held"], names["plan"]
    racks = {host: rack for rack in ("r0", "r1") for host in names["graph"][rack]}
    assert len({racks[task.host] for task in plan.placement("train")}) == 1
    assert held == {
        f"{host}-gpu{gpu}": job for job, places in plan.assignment().items() for host, gpu in places
    }
    assert sorted(held.values()) == ["train"] * 8 + ["tune"] * 2
    assert names["graph"].has_edge(*(node for node, job in held.items() if job == "tune"))
    exec(second, names)
    assert names["plan"].placement("train") == plan.placement("train")


@pytest.mark.nightly
def test_snippets_pass_mypy_strict(tmp_path):
    for page, prelude in PAGES.items():
        name = page.replace("/", "_").replace("-", "_").removesuffix(".md")
        program = "\n\n".join((prelude, *snippets(ROOT / page)))
        (tmp_path / f"{name}.py").write_text(program)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *OPTIONS, str(tmp_path)],
        env={**os.environ, "MYPYPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
