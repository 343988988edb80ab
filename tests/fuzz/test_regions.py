"""The enumerations of `geo` and `replicas` beside other brute forces, which share nothing."""

from __future__ import annotations

import importlib
from pathlib import Path
from random import Random

import pytest

from examples import examples
from fuzz.small_units import in_small_units
from tests.formulations.regions import geo_oracle, geo_tiny, replicas_oracle

ROOT = Path(__file__).parents[2]
ROUNDS = examples(day=10, nightly=25)
TERMS = {
    "geo": ("value", "remote_reads", "egress_cost", "gpu_cost"),
    "replicas": ("overload", "remote_reads", "copies", "imbalance", "hottest"),
}


@pytest.fixture(scope="module", params=sorted(TERMS))
def sides(request):
    """A policy, its terms, rounds of it, and both ways to know the values of all plans."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT)
        policy = importlib.import_module("fuzz.policies").POLICIES[request.param]
        draw = getattr(geo_tiny, request.param)
        oracle = geo_oracle if request.param == "geo" else replicas_oracle
        yield policy, TERMS[request.param], draw, oracle.vectors


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_all_values_of_the_other_enumeration_are_there_and_none_is_better(sides, seed):
    policy, terms, draw, others = sides
    round_ = draw(seed)
    raw = in_small_units(round_.model_dump(mode="json", exclude_none=True))
    raw["policy"]["terms"] = list(terms)
    try:
        plans = list(policy.plans(raw, Random(seed)))
    except importlib.import_module("fuzz.policy").TooManyPlansError:
        pytest.skip("too many plans")
    mine = {tuple(judged.terms.values()) for judged in plans if not judged.broken}
    theirs = others(round_)
    if policy.name == "replicas":
        assert mine == theirs
    else:  # the oracle reads from the cheapest source only
        assert theirs <= mine
        assert best(mine) == best(theirs)


def best(values):
    return max((value, *(-cost for cost in costs)) for value, *costs in values)
