"""Sections Parameters and Attributes of docstrings name what the code has."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
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


def documented(text: str) -> Iterator[tuple[str, str]]:
    """Yield the title of a section and each name in it; `a, b : int` has two."""
    for title, body in SECTION.findall(text):
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
    """Yield what may have a docstring; no expression holds any."""
    if isinstance(tree, ast.Module | ast.ClassDef | ast.FunctionDef):
        yield tree
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.stmt | ast.excepthandler | ast.match_case):
            yield from documented_nodes(child)


@cache
def paths() -> set[str]:
    """Return the files and folders of the repository, also without the folders that hold them."""
    found = {path.name for path in ROOT.iterdir()}
    for path in ROOT.glob("[!.]*/**/*"):
        parts = path.relative_to(ROOT).parts
        if path.suffix in (".py", ".md", "") and parts[0] != "src":
            found.update("/".join(parts[first:]) for first in range(len(parts)))
    return found


@pytest.mark.parametrize("folder", FOLDERS)
def test_docstrings_explain_names_and_name_files_that_exist(folder: str) -> None:
    """A path may leave out the folders that it begins with."""
    wrong: list[str] = []
    for path in sorted((ROOT / folder).rglob("*.py")):
        where, source = path.relative_to(ROOT), path.read_text()
        strangers = {name for name in PATH.findall(source) if name.rstrip("/") not in paths()}
        if not strangers and "Parameters\n" not in source and "Attributes\n" not in source:
            continue  # there is nothing that could be wrong, and parsing is dear
        for node in documented_nodes(ast.parse(source)):
            text = ast.get_docstring(node) or ""
            missing = {name for name in PATH.findall(text) if name.rstrip("/") not in paths()}
            wrong += [f"{where}: {name}" for name in missing]
            if not isinstance(node, ast.Module):
                names = [name for title, name in documented(text) if name not in known(node, title)]
                wrong += [f"{where} {node.name}: {name}" for name in names]
    assert wrong == []
