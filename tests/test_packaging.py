"""The root folders as `placewright.*`: nothing drops out of the wheel or of the checks."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from placewright import __version__

ROOT = Path(__file__).parents[1]
FOLDERS = (
    "cli",
    "explain",
    "formulations",
    "instances",
    "live",
    "report",
    "rounds",
    "solver",
    "topology",
)
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
SETTINGS = PYPROJECT["tool"]["setuptools"]


def test_every_folder_with_files_is_a_package_of_the_wheel():
    found = {
        ".".join(("placewright", *path.parent.relative_to(ROOT).parts))
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and path.parent.name != "__pycache__"
    }
    assert found | {"placewright"} == set(SETTINGS["packages"])


def test_the_version_stands_in_one_place():
    assert PYPROJECT["project"]["dynamic"] == ["version"]
    for path in ("pyproject.toml", "CITATION.cff"):
        assert __version__ not in (ROOT / path).read_text(encoding="utf-8")
    log = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(r"^## \[(.*?)\]", log, re.MULTILINE)[1] == __version__
    for path in (ROOT / "deploy" / "kubernetes").glob("*.yaml"):
        named = re.findall(r"image: placewright:(\S+)", path.read_text(encoding="utf-8"))
        assert set(named) <= {__version__}, path


def test_every_module_lies_in_a_package():
    for folder in FOLDERS:
        for module in (ROOT / folder).rglob("*.py"):
            assert (module.parent / "__init__.py").is_file(), module


def test_each_folder_is_mapped_to_its_name():
    homes = {f"placewright.{folder}": folder for folder in FOLDERS}
    assert SETTINGS["package-dir"] == {"placewright": "src/placewright", **homes}


def test_src_holds_a_relative_link_to_each_folder_that_resolves():
    links = {
        path.name: path for path in (ROOT / "src" / "placewright").iterdir() if path.is_symlink()
    }
    assert set(links) == set(FOLDERS)
    for name, link in links.items():
        assert not link.readlink().is_absolute()
        assert link.resolve() == (ROOT / name).resolve()


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_file_that_is_no_module_is_package_data(folder):
    home = ROOT / folder
    patterns = SETTINGS["package-data"].get(f"placewright.{folder}", ())
    shipped = {path for pattern in patterns for path in home.glob(pattern)}
    others = {
        path
        for path in home.rglob("*")
        if path.is_file() and path.suffix != ".py" and "__pycache__" not in path.parts
    }
    assert others <= shipped


def test_development_installs_one_stated_version_of_all_that_is_required():
    pinned = [
        Requirement(line)
        for line in (ROOT / "constraints.txt").read_text().splitlines()
        if not line.startswith("#")
    ]
    versions = {
        canonicalize_name(pin.name): str(pin.specifier).removeprefix("==") for pin in pinned
    }
    project = PYPROJECT["project"]
    lines = [project["dependencies"], *project["optional-dependencies"].values()]
    required = [Requirement(line) for some in lines for line in some]
    for requirement in required:
        if requirement.name != project["name"]:
            stated = versions[canonicalize_name(requirement.name)]
            assert requirement.specifier.contains(stated), requirement


def test_the_compiler_is_an_extra_that_development_has():
    extras = PYPROJECT["project"]["optional-dependencies"]
    names = [Requirement(line).name for line in PYPROJECT["project"]["dependencies"]]
    assert "numba" not in names
    assert [Requirement(line).name for line in extras["replicas"]] == ["numba"]
    assert any("replicas" in Requirement(line).extras for line in extras["dev"])


def test_what_users_install_stops_short_of_the_next_incompatible_version():
    for line in PYPROJECT["project"]["dependencies"]:
        assert "<" in line, line
