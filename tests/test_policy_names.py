"""Policies are distinguished by looking up what is registered for them, never by their names."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from placewright.cli.views.policies import VIEWS
from placewright.instances.checks.policies import CHECKS
from placewright.instances.policies import POLICIES, sense_of
from placewright.instances.verify.policies import RULES
from placewright.report.panels.policies import PANELS
from placewright.rounds.deciders.base import DECIDERS

ROOT = Path(__file__).parents[1]
FOLDERS = ("cli", "instances", "rounds", "formulations")
MODULES = [
    path.relative_to(ROOT) for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))
]

NAMED = re.compile(rf"""["'](?:{"|".join(POLICIES)})["']|formulation\b""")
"""What a module has that compares a policy's name."""


def compared(module: Path) -> Iterator[str]:
    """Yield each comparison or case with a policy's name, or of a policy's name with anything.

    A section, a field or a term may be called like a policy; whether a `PolicySpec` has one, as in
    `"geo" in spec.sections`, is not a comparison of names.
    """
    source = (ROOT / module).read_text()
    if not NAMED.search(source):
        return  # there is nothing to find, and parsing is dear
    tree, lines = ast.parse(source, str(module)), source.encode().splitlines()
    constants = {
        target.id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }

    def names(node: ast.expr) -> bool:
        if isinstance(node, ast.Name) and node.id in constants:
            node = constants[node.id]
        if isinstance(node, ast.Tuple | ast.List | ast.Set):
            return any(names(one) for one in node.elts)
        return isinstance(node, ast.Constant) and node.value in POLICIES

    def of_policy(node: ast.expr) -> bool:
        last = lines[(node.end_lineno or 1) - 1][: node.end_col_offset]
        return last.endswith(b"formulation")

    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            sides = (node.left, *node.comparators)
            membership = isinstance(node.ops[0], ast.In | ast.NotIn)
            literal = any(names(side) for side in (node.comparators if membership else sides))
            if literal or any(map(of_policy, sides)):
                yield ast.unparse(node)
        elif isinstance(node, ast.MatchValue) and names(node.value):
            yield ast.unparse(node)


def test_no_module_compares_names_of_policies() -> None:
    found = {str(module): list(compared(module)) for module in MODULES}
    assert {module: texts for module, texts in found.items() if texts} == {}


@pytest.mark.parametrize("registry", [CHECKS, RULES, DECIDERS, PANELS, VIEWS])
@pytest.mark.parametrize("policy", POLICIES)
def test_every_layer_has_a_part_for_every_policy(registry: object, policy: str) -> None:
    assert registry[policy] is registry[policy]  # type: ignore[index]


@pytest.mark.parametrize("policy", POLICIES)
def test_a_policy_agrees_with_itself(policy: str) -> None:
    spec = POLICIES[policy]
    assert {*spec.leading, *spec.default} <= {*spec.terms}
    assert spec.default[0] in spec.leading
    assert {*spec.required_sections} <= {*spec.plan_sections}
    assert {*RULES[policy].forms} == {*spec.plan_sections}
    assert {*RULES[policy].terms} == {*spec.terms}
    assert all(sense_of(term) == sense for term, sense in spec.terms.items())
