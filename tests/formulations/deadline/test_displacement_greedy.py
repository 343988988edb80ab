"""Jobs that must run now are placed: large gangs first, smaller ones are displaced."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples
from placewright import Plan, Round, verify
from placewright.formulations.deadline.heuristics.current_lease import displacement_greedy
from placewright.formulations.deadline.problem.leases import FIRST_PRIORITY
from placewright.formulations.gang.placement.assignment import assign
from placewright.formulations.gang.placement.preemption import repair_preemptions
from placewright.formulations.gang.problem.compile import compile_round
from placewright.instances.checks.round import check_round
from placewright.rounds.decisions import DefaultDecisions, decisions_of
from placewright.rounds.sections.moves import move_section

HOSTS, GPUS = 3, 8


def gang(name: str, gpus: int, must: bool, places: list[tuple[int, int]] | None) -> dict[str, Any]:
    """Return a job of whole hosts' tasks, or of one; `places` are (host, first GPU) of each."""
    each = min(gpus, GPUS)
    job: dict[str, Any] = {
        "name": name,
        "priority": FIRST_PRIORITY - 31 + gpus.bit_length() if must else 0,
        "options": [{"value": 16 * gpus, "groups": [{"count": gpus // each, "gpu": each}]}],
    }
    if places is not None:
        job["running"] = {
            "tasks": [
                {"index": i, "host": f"h{host}", "gpus": list(range(first, first + each))}
                for i, (host, first) in enumerate(places)
            ]
        }
    return job


def round_of(jobs: list[dict[str, Any]]) -> Round:
    hosts = [{"name": f"h[0-{HOSTS - 1}]", "gpus": GPUS, "gpu_model": "A100"}]
    cluster = {"apiVersion": "placewright/v1alpha2", "kind": "Cluster", "hosts": hosts}
    raw = {"apiVersion": "placewright/v1alpha2", "kind": "Round", "cluster": cluster, "jobs": jobs}
    round_ = Round.model_validate(raw)
    check_round(round_)
    return round_


def placed(round_: Round) -> Plan:
    problem = compile_round(round_)
    placement = displacement_greedy(problem)
    repair_preemptions(placement)
    found = assign(placement, "displacement")
    decisions = decisions_of(round_, problem.cluster.hosts, DefaultDecisions()(round_), found)
    moves = move_section(round_, decisions)
    plan = Plan.model_construct(decisions=decisions, sections=(moves,) if moves else ())
    assert verify(round_, plan).violations == ()
    return plan


SIZES = st.sampled_from([1, 1, 2, 4, 8, 16])


@settings(max_examples=examples(day=37, nightly=150))
@given(st.lists(st.tuples(SIZES, st.booleans(), st.booleans()), max_size=24))
def test_powers_of_two_that_fit_by_count_all_find_a_place(
    asked: list[tuple[int, bool, bool]],
) -> None:
    free = {host: list(range(GPUS)) for host in range(HOSTS)}
    jobs, left = [], HOSTS * GPUS
    for number, (gpus, must, runs) in enumerate(asked):
        each = min(gpus, GPUS)
        # Running jobs come to every third host in turn, so that free GPUs are scattered.
        hosts = [h for h in range(HOSTS) if len(free[h]) >= each]
        hosts = hosts[number % max(1, len(hosts)) :] + hosts[: number % max(1, len(hosts))]
        places = None
        if must and gpus > left:
            continue
        if runs and len(hosts) >= gpus // each:
            at = hosts[: gpus // each]
            if any(free[h][:each] != list(range(free[h][0], free[h][0] + each)) for h in at):
                continue
            places = [(h, free[h][0]) for h in at]
            for h in at:
                free[h] = free[h][each:]
        left -= gpus * must
        jobs.append(gang(f"j{number}", gpus, must, places))
    round_ = round_of(jobs)
    plan = placed(round_)
    for job, decision in zip(round_.jobs, plan.decisions, strict=True):
        if job.priority:
            assert decision.decision in ("start", "keep", "migrate"), job.name


def test_one_who_may_wait_leaves_before_one_who_must_run_moves() -> None:
    jobs = [
        gang("may", 4, False, [(0, 0)]),
        gang("also", 4, True, [(1, 0)]),
        gang("third", 8, True, [(2, 0)]),
        gang("large", 8, True, None),
    ]
    decisions = {one.job: str(one.decision) for one in placed(round_of(jobs)).decisions}
    assert decisions == {"may": "migrate", "also": "keep", "third": "keep", "large": "start"}


def test_who_must_run_moves_where_that_frees_gpus() -> None:
    jobs = [gang(f"small{h}", 2, True, [(h, 0)]) for h in range(HOSTS)]
    jobs.append(gang("large", 8, True, None))
    decisions = {one.job: str(one.decision) for one in placed(round_of(jobs)).decisions}
    assert decisions.pop("large") == "start"
    assert sorted(decisions.values()) == ["keep", "keep", "migrate"]
