"""Whose turn it is in rounds: counters, deficits and a lottery, by hand and played."""

from __future__ import annotations

import json

import numpy as np
import pytest

from placewright.array_types import Ints
from placewright.instances.traces.trace import NEVER, SECOND, Trace
from placewright.rounds.policies.base import Columns
from placewright.rounds.policies.named import POLICIES
from placewright.rounds.policies.tenant_rounds import (
    Rule,
    TenantTurns,
    counters,
    deficits,
    lottery,
)
from placewright.rounds.replay.spec import ReplaySpec, play

SEES = frozenset({"tenant", "service_us"})


class Table:
    """Columns by hand: job i is of `tenant[i]`, asks `gpus[i]` and has had `served[i]` seconds."""

    def __init__(self, tenant: list[int], gpus: list[int]) -> None:
        self.tenant, self.gpus = np.array(tenant), np.array(gpus)
        self.service_us = np.zeros(len(tenant), dtype=np.int64)

    def column(self, name: str, jobs: Ints) -> Ints:
        """Return a column for some jobs."""
        rows: Ints = getattr(self, name)[jobs]
        return rows

    def columns(self, *jobs: int) -> Columns:
        """Return what a policy sees of jobs."""
        return Columns(self, np.array(jobs), SEES)


def firsts(rule: Rule, table: Table, rounds: int, gpus: int = 1) -> list[int]:
    """Let the job of the first tenant run for a second, round after round; return the tenants."""
    turns, found = TenantTurns(rule, gpus), []
    jobs = table.columns(*range(len(table.tenant)))
    for _ in range(rounds):
        weights = turns.weigh(jobs)
        first = int(weights.rank.argmin())
        table.service_us[first] += SECOND
        found.append(int(table.tenant[first]))
        turns.restore(json.loads(json.dumps(turns.state())))
    return found


@pytest.mark.parametrize("rule", [counters, deficits, lottery])
def test_tenants_that_ask_alike_take_turns(rule: Rule) -> None:
    found = firsts(rule, Table([0, 1, 2], [1, 1, 1]), 9)
    assert np.bincount(found).tolist() == [3, 3, 3]
    assert all(set(found[at : at + 3]) == {0, 1, 2} for at in (0, 3, 6))


def test_a_counter_counts_gpu_time() -> None:
    """A round of 2 GPUs counts as two of 1: the small one is first twice as often."""
    assert np.bincount(firsts(counters, Table([0, 1], [2, 1]), 9, gpus=2)).tolist() == [3, 6]


def test_who_comes_back_has_no_claim_to_the_time_it_was_away() -> None:
    table, turns = Table([0, 1, 2], [1, 1, 1]), TenantTurns(counters, 1)
    for _ in range(8):
        turns.weigh(table.columns(0, 1))
        table.service_us[:2] += SECOND
    turns.weigh(table.columns(0, 1, 2))
    assert turns.credit[2] == max(turns.credit[0], turns.credit[1])
    assert turns.credit[2] == -8 * SECOND


def test_deficits_are_of_parts_that_jobs_ask() -> None:
    """Of 4 GPUs a tenant asks 1, another 8: fair parts are 1 and 3, of 8 s that both have had."""
    table, turns = Table([0, 1], [1, 8]), TenantTurns(deficits, 4)
    turns.weigh(table.columns(0, 1))
    table.service_us[:] = 8 * SECOND, 0
    turns.weigh(table.columns(0, 1))
    assert turns.credit == {0: pytest.approx(-6 * SECOND), 1: pytest.approx(6 * SECOND)}


def test_what_a_job_had_that_has_ended_counts() -> None:
    table, turns = Table([0, 1, 0], [1, 1, 1]), TenantTurns(counters, 1)
    turns.weigh(table.columns(0, 1))
    table.service_us[0] = 5 * SECOND
    turns.end(table.columns(0))
    turns.weigh(table.columns(1))
    turns.weigh(table.columns(1, 2))
    assert turns.credit == {0: -5 * SECOND, 1: 0}


def test_from_the_fourth_on_tenants_are_alike() -> None:
    table = Table([0, 1, 2, 3, 4, 4], [4, 1, 8, 2, 1, 2])
    weights = TenantTurns(counters, 8).weigh(table.columns(*range(6)))
    assert weights.value.tolist() == [4, 1, 8, 2, 1, 2]
    assert weights.rank.tolist() == [0, 1, 2, 3, 3, 3]


@pytest.mark.parametrize("policy", ["tenant-counters-rounds", "drf-deficits", "robus"])
def test_tenants_share_a_gpu_over_time(policy: str) -> None:
    """A has four jobs of two rounds, B one that comes later: it gets every other round."""
    rows = np.array([(0, 0, 1, 20)] * 4 + [(1, 5, 1, 20)])
    trace = Trace.of(
        SECOND * rows[:, 1],
        rows[:, 2],
        SECOND * rows[:, 3],
        tenant=rows[:, 0],
        tenants=("A", "B"),
    )
    found = play(trace, ReplaySpec(policy, (1,), every_s=10, search_s=0.1))
    assert (found.end_us < NEVER).all()
    assert 30 <= found.end_us[4] / SECOND <= 60
    assert policy in POLICIES
