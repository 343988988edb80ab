"""Sections Parameters and Attributes of docstrings name what the code has."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = (
    "benchmarks",
    "cli",
    "explain",
    "formulations",
    "fuzz",
    "instances",
    "live",
    "report",
    "rounds",
    "solver",
    "topology",
)
SECTION = re.compile(
    r"^(Parameters|Attributes)\n-+\n(.*?)(?=^\w[^\n]*\n-{3,}$|\Z)", flags=re.MULTILINE | re.DOTALL
)
PATH = re.compile(r"(?<![\w./-])((?:[\w.]+/)*\w+\.(?:py|md)|(?<=`)(?:\w+/)+)(?![\w/])")
"""A file, or a folder in backticks."""

ENTRY = re.compile(r"^(\S.*?)(?: : .*)?$", flags=re.MULTILINE)


def documented(node: ast.FunctionDef | ast.ClassDef) -> Iterator[tuple[str, str]]:
    """Yield the title of a section and each name in it; `a, b : int` has two."""
    for title, body in SECTION.findall(ast.get_docstring(node) or ""):
        for entry in ENTRY.findall(body):
            yield from ((title, name.lstrip("*")) for name in entry.split(", "))


def parameters(function: ast.FunctionDef) -> set[str]:
    args = function.args
    every = (*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg)
    return {arg.arg for arg in every if arg is not None}


def fields(node: ast.ClassDef) -> set[str]:
    return {
        each.target.id
        for each in node.body
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
    }


def attributes(node: ast.ClassDef) -> set[str]:
    """Return fields, properties, and what methods assign to `self`."""
    assigned = {
        each.attr
        for each in ast.walk(node)
        if isinstance(each, ast.Attribute)
        and isinstance(each.ctx, ast.Store)
        and ast.unparse(each.value) == "self"
    }
    properties = {each.name for each in node.body if isinstance(each, ast.FunctionDef)}
    return fields(node) | assigned | properties


def known(node: ast.FunctionDef | ast.ClassDef, title: str) -> set[str]:
    """Return the names that a section of this title may explain."""
    if isinstance(node, ast.FunctionDef):
        return parameters(node)
    if title == "Attributes":
        return attributes(node)
    starts = [each for each in node.body if getattr(each, "name", "") == "__init__"]
    return parameters(starts[0]) if starts else fields(node)  # type: ignore[arg-type]


def documented_nodes(tree: ast.AST) -> Iterator[ast.Module | ast.ClassDef | ast.FunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            yield node


def trees(folder: str) -> Iterator[tuple[Path, ast.Module]]:
    for path in sorted((ROOT / folder).rglob("*.py")):
        yield path.relative_to(ROOT), ast.parse(path.read_text())


@pytest.mark.parametrize("folder", FOLDERS)
def test_docstrings_explain_names_that_exist(folder: str) -> None:
    wrong = [
        f"{path} {node.name}: {name}"
        for path, tree in trees(folder)
        for node in documented_nodes(tree)
        if not isinstance(node, ast.Module)
        for title, name in documented(node)
        if name not in known(node, title)
    ]
    assert wrong == []


@pytest.mark.parametrize("folder", FOLDERS)
def test_docstrings_name_files_that_exist(folder: str) -> None:
    """A path may leave out the folders that it begins with."""
    there = {
        "/".join(path.parts[first:])
        for path in (each.relative_to(ROOT) for each in ROOT.glob("[!.]*/**/*"))
        if path.suffix in (".py", ".md", "") and path.parts[0] != "src"
        for first in range(len(path.parts))
    }
    there |= {path.name for path in ROOT.iterdir()}
    wrong = [
        f"{path}: {name}"
        for path, tree in trees(folder)
        for node in documented_nodes(tree)
        for name in PATH.findall(ast.get_docstring(node) or "")
        if name.rstrip("/") not in there
    ]
    assert wrong == []
