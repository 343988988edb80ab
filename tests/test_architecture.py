"""Who may import whom, as docs/architecture.md says."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MAY_IMPORT = {
    "topology": set(),
    "solver": set(),
    "instances": {"topology"},
    "formulations": {"topology", "instances", "solver"},
    "rounds": {"topology", "instances", "solver", "formulations"},
    "cli": {"topology", "instances", "rounds"},
}
MODULES = [
    path.relative_to(ROOT)
    for folder in MAY_IMPORT
    for path in sorted((ROOT / folder).rglob("*.py"))
]
EVERYWHERE = {path.stem for path in (ROOT / "src" / "placewright").glob("[!_]*.py")}
"""Modules of the package itself, which import nothing of ours."""
SOLVERS = {"highspy", "ortools", "pulp"}
NETWORK_FLOW = Path("solver/network_flow.py")
"""Calls OR-Tools' network flow, which solves no models, and so is no backend."""


def imported(module: Path) -> Iterator[str]:
    """Every dotted name that a module imports, wherever in it."""
    for node in ast.walk(ast.parse((ROOT / module).read_text(), str(module))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} has a relative import; expected placewright.<folder>"
            assert node.module is not None
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def folders_of(module: Path) -> set[str]:
    """Folders of ours that a module imports; a public name of the package counts as its home."""
    from placewright import _HOMES

    parts = [name.split(".") for name in imported(module)]
    ours = [name[1] for name in parts if name[0] == "placewright" and len(name) > 1]
    homes = [_HOMES.get(name, f"placewright.{name}") for name in ours]
    return {home.split(".")[1] for home in homes}


@pytest.mark.parametrize("module", MODULES, ids=str)
def test_a_module_imports_only_from_folders_below_it(module):
    folder = module.parts[0]
    assert folders_of(module) <= MAY_IMPORT[folder] | {folder} | EVERYWHERE


@pytest.mark.parametrize("name", sorted(EVERYWHERE))
def test_a_module_that_all_may_import_imports_nothing_of_ours(name):
    assert not folders_of(Path("src", "placewright", f"{name}.py"))


@pytest.mark.parametrize("module", MODULES, ids=str)
def test_solver_packages_are_imported_by_backends_and_network_flow_only(module):
    found = {name.split(".")[0] for name in imported(module)} & SOLVERS
    assert not found or module.parent == Path("solver/backends") or module == NETWORK_FLOW


def test_each_backend_imports_one_solver_package_and_each_package_has_one():
    backends = [m for m in MODULES if m.parent == Path("solver/backends")]
    found = [{name.split(".")[0] for name in imported(m)} & SOLVERS for m in backends]
    assert all(len(names) <= 1 for names in found)
    assert set().union(*found) == SOLVERS


def test_the_directions_in_the_architecture_page_are_the_ones_tested():
    page = (ROOT / "docs" / "architecture.md").read_text()
    for folder in MAY_IMPORT:
        assert f"| `{folder}/` |" in page
