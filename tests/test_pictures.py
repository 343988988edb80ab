"""The pictures of the pages are those that their sources draw."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

from placewright import load_round, solve_round, write
from placewright.cli.app import main

ROOT = Path(__file__).parents[1]
PICTURES = ROOT / "docs" / "pictures"
PAGES = (
    ROOT / "README.md",
    *sorted(p for p in (ROOT / "docs").rglob("*.md") if p.parent.name != "gallery"),
)
QUICKSTART = ROOT / "instances" / "library" / "quickstart.yaml"

pytest.importorskip("matplotlib")


def same_picture(drawn: Path, shown: Path) -> bool:
    """Whether two SVG files are equal or, drawn by two versions of matplotlib, have equal texts."""
    return drawn.read_bytes() == shown.read_bytes() or (
        version(drawn) != version(shown) and texts(drawn) == texts(shown)
    )


def version(file: Path) -> list[str]:
    return re.findall(r"Matplotlib v[\d.]+", file.read_text())


def texts(file: Path) -> list[str]:
    """The texts in their order: elements, or the comments before texts drawn as paths."""
    return re.findall(r"<!-- (.*?) -->|<text [^>]*>([^<]*)</text>", file.read_text())


def test_every_picture_is_shown_on_a_page():
    shown = {
        (page.parent / target).resolve()
        for page in PAGES
        for target in re.findall(r"!\[[^]]*\]\(([^)]+)\)", page.read_text())
    }
    assert shown == {*PICTURES.glob("*.svg"), *PICTURES.glob("*.png")}


def test_the_pictures_of_the_architecture_are_those_that_the_script_draws(tmp_path):
    pictures = runpy.run_path(str(PICTURES / "draw.py"))["PICTURES"]
    assert {*pictures, "plan"} == {file.stem for file in PICTURES.glob("*.svg")}
    for name, draw in pictures.items():
        draw().save(tmp_path / f"{name}.svg")
        assert same_picture(tmp_path / f"{name}.svg", PICTURES / f"{name}.svg"), name


def test_the_picture_of_the_readme_is_that_of_its_example(tmp_path):
    plan = solve_round(load_round(QUICKSTART), deterministic=True, isolation="none")
    write(plan, tmp_path / "plan.json")
    drawn = tmp_path / "plan.svg"
    show = ["show", str(QUICKSTART), "--plan", str(tmp_path / "plan.json"), "-o", str(drawn)]
    assert main(show) == 0
    assert same_picture(drawn, PICTURES / "plan.svg")
