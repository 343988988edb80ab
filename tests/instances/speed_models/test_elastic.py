"""Lyra's knapsack, AFS's rule and ONES's score on tiny rounds, against brute force."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import product
from math import log2

import pytest

from examples import examples
from placewright.instances.checks.round import check_round
from placewright.instances.documents.cluster import ClusterDocument
from placewright.instances.documents.job import Job
from placewright.instances.documents.option import Option, TaskGroup
from placewright.instances.documents.plan import Decision, DecisionKind, Plan, Task
from placewright.instances.documents.policy import Policy
from placewright.instances.documents.round import Round
from placewright.instances.errors import InvalidInputError
from placewright.instances.speed_models import afs, lyra, ones
from placewright.instances.speed_models.amounts import power_gains
from placewright.instances.verify import verify
from placewright.rounds import solve_round

BACKENDS = [("highs", examples(day=15, nightly=60)), ("cp-sat", 20), ("cbc", 20), ("scip", 20)]
Menus = Sequence[tuple[Option, ...]]


def round_of(menus: Menus, **gpus: int) -> Round:
    """Jobs of these menus on a host of each name with as many GPUs."""
    hosts = [{"name": name, "gpus": n, "gpu_model": "A"} for name, n in gpus.items()]
    round_ = Round(
        cluster=ClusterDocument.model_validate({"hosts": hosts}),
        jobs=tuple(Job(name=f"job-{i}", options=menu) for i, menu in enumerate(menus)),
        policy=Policy(terms=("value", "progress")),
    )
    check_round(round_)
    return round_


def optimum(round_: Round, backend: str) -> tuple[Plan, int, int]:
    """A plan proven optimal, its value and its progress."""
    plan = solve_round(round_, backend=backend, gap=0.0, isolation="none")
    checked = verify(round_, plan)
    assert checked.ok, checked.violations
    assert plan.certificate is not None
    assert plan.certificate.status == "optimal"
    value, progress = (term.value for term in plan.certificate.terms)
    return plan, value, progress


def chosen(plan: Plan) -> list[int | None]:
    return [decision.option for decision in plan.decisions]


# Lyra


def drawn_lyra(rng: random.Random) -> list[tuple[float, int, int]]:
    """Work, base and most workers of some jobs; the work divides well."""
    jobs = []
    for _ in range(rng.randrange(2, 6)):
        base = rng.randrange(1, 4)
        jobs.append((2520.0 * rng.randrange(1, 20), base, base + rng.randrange(0, 4)))
    return jobs


def knapsack(jobs: list[tuple[float, int, int]], spare: int) -> int:
    """Seconds saved at most by `spare` workers beyond the base demands: a table over workers."""
    best = [0] * (spare + 1)
    for work, base, most in jobs:
        before = list(best)
        for extra in range(1, most - base + 1):
            saved = round(work / base - work / (base + extra))
            for size in range(extra, spare + 1):
                best[size] = max(best[size], before[size - extra] + saved)
    return best[spare]


@pytest.mark.nightly(after=1)
@pytest.mark.parametrize(("backend", "rounds"), BACKENDS)
def test_growth_beyond_all_base_demands_is_lyras_knapsack(backend: str, rounds: int) -> None:
    rng = random.Random(1)
    for _ in range(rounds):
        jobs = drawn_lyra(rng)
        spare = rng.randrange(0, 6)
        base = sum(b for _, b, _ in jobs)
        round_ = round_of([lyra.options(*job) for job in jobs], h=base + spare)
        _, value, progress = optimum(round_, backend)
        assert (value, progress) == (len(jobs), knapsack(jobs, spare))


@pytest.mark.nightly(after=1)
@pytest.mark.parametrize(("backend", "rounds"), BACKENDS)
def test_base_demand_comes_first_and_flexible_workers_go_to_loaned_hosts(
    backend: str, rounds: int
) -> None:
    rng = random.Random(2)
    for _ in range(rounds):
        jobs = drawn_lyra(rng)
        own, loaned = rng.randrange(2, 9), rng.randrange(0, 5)
        menus = [
            lyra.options(
                *job,
                worker=TaskGroup(gpu=1, hosts=("own",)),
                flexible=TaskGroup(gpu=1, hosts=("loaned",)),
            )
            for job in jobs
        ]
        best = (0, 0)
        for sizes in product(*([None, *range(b, m + 1)] for _, b, m in jobs)):
            taken = [(w, b, n) for (w, b, _), n in zip(jobs, sizes, strict=True) if n is not None]
            fits = sum(b for _, b, _ in taken) <= own
            if fits and sum(n - b for _, b, n in taken) <= loaned:
                saved = sum(round(w / b - w / n) for w, b, n in taken)
                best = max(best, (len(taken), saved))
        _, value, progress = optimum(round_of(menus, own=own, loaned=loaned), backend)
        assert (value, progress) == best


def test_the_seconds_that_growth_saves_follow_from_the_speeds() -> None:
    menu = lyra.options(600, 1, 3, speeds={1: 1.0, 2: 1.5, 3: 2.0})
    assert [(o.progress, o.milli_gpu) for o in menu] == [(0, 1000), (200, 2000), (300, 3000)]
    assert [g.name for g in menu[2].groups] == ["tasks", "flexible"]


# AFS


def afs_shares(lengths: list[float], speeds: list[list[float]], gpus: int) -> list[int]:
    """AFS-L: each GPU to the winner of a pairwise comparison of all jobs that can use one more.

    Of two jobs let l be the one that ends sooner at its share, h the other, p the speed now and p'
    that with a GPU more: l gets it if (p'_l - p_l) / p_l > (p'_h - p_h) / p'_h. A job without a GPU
    never ends; of two such the one that is shorter on one GPU gets it.
    """
    share = [0] * len(lengths)

    def now(j: int) -> float:
        return speeds[j][share[j] - 1] if share[j] else 0.0

    def winner(a: int, b: int) -> int:
        if not share[a] and not share[b]:
            return min(a, b, key=lambda j: lengths[j] / speeds[j][0])
        ends = [lengths[j] / now(j) if share[j] else float("inf") for j in (a, b)]
        low, high = (a, b) if ends[0] <= ends[1] else (b, a)
        after = {j: speeds[j][share[j]] for j in (a, b)}
        gain_low = (after[low] - now(low)) / now(low)
        return low if gain_low > (after[high] - now(high)) / after[high] else high

    for _ in range(gpus):
        champion: int | None = None
        for j in range(len(lengths)):
            if share[j] < len(speeds[j]):
                champion = j if champion is None else winner(champion, j)
        if champion is None:
            break
        share[champion] += 1
    return share


def plan_of(shares: list[int]) -> Plan:
    """The jobs with as many GPUs each on the one host."""
    decisions, first = [], 0
    for j, n in enumerate(shares):
        tasks = tuple(Task(index=i, host="h", gpus=(first + i,)) for i in range(n))
        first += n
        decisions.append(
            Decision(job=f"job-{j}", decision=DecisionKind.START, option=n - 1, tasks=tasks)
            if n
            else Decision(job=f"job-{j}", decision=DecisionKind.WAIT)
        )
    return Plan(decisions=tuple(decisions))


@pytest.mark.nightly(after=1)
@pytest.mark.parametrize(("backend", "rounds"), BACKENDS)
def test_the_marginal_rule_of_afs_is_never_better_than_the_optimum(
    backend: str, rounds: int
) -> None:
    rng = random.Random(3)
    worse = 0
    for _ in range(rounds):
        lengths, speeds = [], []
        for _ in range(rng.randrange(2, 6)):
            lengths.append(rng.uniform(1, 100))
            speed, curve = 0.0, []
            for _ in range(rng.randrange(1, 7)):
                speed += rng.uniform(0.05, 1.0)
                curve.append(speed)
            speeds.append(curve)
        gpus = rng.randrange(2, 10)
        menus = [afs.options(dict(enumerate(curve, 1))) for curve in speeds]
        round_ = round_of(menus, h=gpus)
        theirs = verify(round_, plan_of(afs_shares(lengths, speeds, gpus)))
        assert theirs.ok, theirs.violations
        _, value, progress = optimum(round_, backend)
        their = (theirs.terms["value"], theirs.terms["progress"])
        assert their <= (value, progress)
        worse += their < (value, progress)
    assert worse  # the rule is no optimum in disguise


def test_the_progress_of_afs_is_the_logarithm_of_the_speed_up() -> None:
    menu = afs.options({1: 2.0, 2: 3.0, 4: 5.0})
    assert [o.progress for o in menu] == [0, round(1000 * log2(1.5)), round(1000 * log2(2.5))]
    assert [o.milli_gpu for o in menu] == [1000, 2000, 4000]
    with pytest.raises(InvalidInputError, match=r"speeds\[2\]"):
        afs.options({1: 2.0, 2: 1.0})


# ONES


@pytest.mark.nightly(after=1)
@pytest.mark.parametrize(("backend", "rounds"), BACKENDS)
def test_the_optimum_has_the_least_score_of_ones_with_all_gpus_in_use(
    backend: str, rounds: int
) -> None:
    rng = random.Random(4)
    for _ in range(rounds):
        jobs = []
        for _ in range(rng.randrange(2, 6)):
            rates = sorted(rng.sample(range(1, 11), rng.randrange(1, 5)))
            throughputs = {c: float(x) for c, x in enumerate(rates, 1)}
            jobs.append((2520 * rng.randrange(1, 9), 1 / rng.randrange(2, 6), throughputs))
        gpus = rng.randrange(2, 9)
        horizon = max(ones.remaining_s(y, rho, x) for y, rho, xs in jobs for x in xs.values())
        menus = [
            ones.options(xs, samples_done=y, progress=rho, horizon_s=horizon) for y, rho, xs in jobs
        ]

        def score(counts: Sequence[int | None]) -> int:
            return sum(
                round(y * (1 / rho - 1) * c / xs[c])
                for (y, rho, xs), c in zip(jobs, counts, strict=True)  # noqa: B023
                if c
            )

        every = [
            (sum(filter(None, counts)), -score(counts))
            for counts in product(*([None, *xs] for _, _, xs in jobs))
        ]
        best = max(s for s in every if s[0] <= gpus)
        plan, value, _ = optimum(round_of(menus, h=gpus), backend)
        counts = [None if o is None else o + 1 for o in chosen(plan)]
        assert (value // 1000, -score(counts)) == best


def test_a_horizon_must_cover_all_that_remains() -> None:
    with pytest.raises(InvalidInputError, match=r"horizon_s: 99: expected at least the 100 s"):
        ones.options({1: 1.0}, samples_done=100, progress=0.5, horizon_s=99)


# Power means


def test_the_sum_of_power_gains_ranks_allocations_as_the_power_mean() -> None:
    rng = random.Random(5)
    for power in (1.0, 0.5, -0.5, -1.0, -3.0):
        jobs = [{n: rng.uniform(1, 8) for n in range(3)} for _ in range(3)]
        gains = [power_gains(job, power, 10**9) for job in jobs]
        picks = list(product(range(3), repeat=3))
        sums = [sum(g[n] for g, n in zip(gains, pick, strict=True)) for pick in picks]
        means = [
            (sum(j[n] ** power for j, n in zip(jobs, pick, strict=True)) / 3) ** (1 / power)
            for pick in picks
        ]
        order = sorted(range(len(picks)), key=lambda i: means[i])
        assert [sums[i] for i in order] == sorted(sums)
