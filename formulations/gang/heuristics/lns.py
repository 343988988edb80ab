"""Large neighbourhood search (Shaw 1998): destroy a few hosts, repair by an exact model.

Hosts are drawn at random, weighted by what a waiting job could gain there, all of one GPU model.
Their one-task jobs are removed, and the host-indexed model (`models/host/`) decides who gets the
hosts; a repair is kept if it is worth more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from placewright.formulations.bound_arithmetic import HOLD_SLACK
from placewright.formulations.gang import parameters
from placewright.formulations.gang.heuristics.stopping import close_enough
from placewright.formulations.gang.models.host.disruption_budget import add_disruption_budget
from placewright.formulations.gang.models.host.expand import start_jobs
from placewright.formulations.gang.models.host.gpus import add_gpus
from placewright.formulations.gang.models.host.model import build_host_model
from placewright.formulations.gang.models.host.pools import add_pools
from placewright.formulations.gang.models.host.preemption import close_hosts_of_victims
from placewright.formulations.gang.models.host.terms import add_value
from placewright.formulations.gang.placement.assignment import assign
from placewright.formulations.gang.placement.completion import complete
from placewright.formulations.gang.placement.disruption_budget import repair_disruptions
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.placement.upgrade import upgrade_options
from placewright.formulations.gang.problem.jobs import ANY_JOB, Choice, JobPlacement
from placewright.formulations.gang.problem.problem import Problem
from placewright.formulations.gang.problem.terms import VALUE
from placewright.formulations.plan_messages import Candidate
from placewright.formulations.session import Session

Densities: TypeAlias = Mapping[tuple[int, int], tuple[float, int]]
"""Value per milli-GPU, and milli-GPU, of each class and choice of one task."""


def large_neighbourhood_search(
    problem: Problem, session: Session, placement: Placement
) -> Iterator[Candidate]:
    """Improve a placement's value until a limit or the gap is reached; yield improvements."""
    if problem.weighted_terms[0] != VALUE:
        return
    tuning = parameters.PARAMETERS.neighbourhood
    rng = np.random.default_rng(session.seed)
    densities = _densities(problem)
    failures, reported = 0, placement.value
    most = min(tuning.max_repair_seconds, tuning.repair_share * session.remaining())
    # Time for one more repair, and for the bounds of the later terms.
    while failures < tuning.max_failures and not session.expired(2 * most):
        hosts = _draw_hosts(problem, placement, densities, rng)
        if not len(hosts):
            break
        gained = _destroy_and_repair(problem, session, placement, hosts, most)
        failures = 0 if gained else failures + 1
        if close_enough(problem, session, placement):
            break
        if placement.value >= reported * (1 + tuning.reported_gain_rel):
            reported = placement.value
            repair_disruptions(placement)
            yield assign(placement, "repair")
    if placement.value > reported:
        upgrade_options(placement)
        repair_disruptions(placement)
        complete(placement)
        yield assign(placement, "repair")


def _draw_hosts(
    problem: Problem, placement: Placement, densities: Densities, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Draw hosts of one GPU model by what a waiting job of the highest density could win there."""
    gain = _potential_gain(problem, placement, densities)
    if not gain.any():
        return np.zeros(0, dtype=np.int64)
    first = rng.choice(len(gain), p=gain / gain.sum())
    model = problem.cluster.gpu_model
    same = (model == model[first]) & problem.shape_hosts.any(axis=0)
    same[first] = False
    others = np.flatnonzero(same)
    if not len(others):
        return np.array([first])
    # Hosts with nothing to win come in, too: a job may have to move there.
    weight = gain[others] + gain.mean()
    tuning = parameters.PARAMETERS.neighbourhood
    most = tuning.max_hosts if problem.part_demands is None else tuning.max_hosts_with_parts
    size = min(most - 1, len(others))
    drawn = rng.choice(others, size=size, replace=False, p=weight / weight.sum())
    return np.sort(np.append(drawn, first))


def _densities(problem: Problem) -> Densities:
    return {
        (c, o): (choice.value / max(choice.groups[0].milli_gpu, 1), choice.groups[0].milli_gpu)
        for c, job_class in enumerate(problem.classes)
        for o, choice in enumerate(job_class.choices)
        if choice.is_single_task
    }


def _potential_gain(
    problem: Problem, placement: Placement, densities: Densities
) -> NDArray[np.float64]:
    """Per host: free GPUs, and GPUs of less dense one-task jobs, times the density they lack."""
    waiting = [each for (c, _), (each, _) in densities.items() if placement.waiting[c]]
    densest = max(waiting, default=0.0)
    gain = placement.free_milli_gpu * densest
    for _, start in placement.started():
        known = densities.get((start.job_class, start.choice))
        if known is not None and known[0] < densest:
            gain[start.tasks[0].host] += (densest - known[0]) * known[1]
    return np.where(problem.shape_hosts.any(axis=0), gain, 0.0)


def _destroy_and_repair(
    problem: Problem,
    session: Session,
    placement: Placement,
    hosts: NDArray[np.int64],
    seconds: float,
) -> bool:
    """Refill the hosts if that raises the value; returns whether it did."""
    freed: list[JobPlacement] = []
    inside = set(hosts.tolist())
    for number, start in list(placement.started()):
        choice = problem.classes[start.job_class].choices[start.choice]
        if (
            start.tasks[0].host in inside
            and choice.is_single_task
            and _at_home(problem, start, inside)
        ):
            freed.append(start)
            placement.stop(number)
    # The model knows no GPUs that gangs were promised: where some are, who runs stays as it is.
    promised = {host for host in inside if placement.has_unnamed_gpus(host)}
    for start in [s for s in freed if s.job != ANY_JOB and _homes(problem, s.job) & promised]:
        freed.remove(start)
        placement.restart(start)
    jobs = [
        job
        for stopped in placement.stopped
        for job in stopped
        if _running_option(problem, job).is_single_task  # the model has no rows of levels
        and _homes(problem, job) <= inside - promised
        and placement.fits_in_place(job)
    ]
    before = sum(problem.classes[s.job_class].choices[s.choice].value for s in freed)
    before -= sum(_running_option(problem, j).value for j in jobs)
    with placement.without_rank_limits(jobs):
        numbers = _waiting_singles(problem, placement, hosts)
        exact = build_host_model(problem, placement, hosts, numbers, jobs)
        add_pools(exact)
        slots = add_gpus(exact)
        close_hosts_of_victims(exact)
        add_disruption_budget(exact)
        add_value(exact)
    exact.model.hold(VALUE, before + 1, HOLD_SLACK)
    tuning = parameters.PARAMETERS.neighbourhood
    outcome = session.optimise(exact.model.arrays(VALUE), most=seconds, gap=tuning.repair_gap_rel)
    if outcome is not None and outcome.values is not None:
        start_jobs(exact, slots, outcome.values, placement)
        return True
    for start in freed:
        placement.restart(start)
    return False


def _running_option(problem: Problem, job: int) -> Choice:
    return problem.classes[problem.running[job].job_class].choices[0]


def _at_home(problem: Problem, start: JobPlacement, hosts: set[int]) -> bool:
    """Whether a job, if it runs, runs on these hosts only."""
    return start.job == ANY_JOB or _homes(problem, start.job) <= hosts


def _homes(problem: Problem, job: int) -> set[int]:
    """Return the hosts on which a running job runs."""
    return {host for _, _, host, _ in problem.running[job].places}


def _waiting_singles(
    problem: Problem, placement: Placement, hosts: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Count the waiting one-task jobs per class, no more than the hosts could hold."""
    numbers = np.zeros(len(problem.classes), dtype=np.int64)
    capacity = [int(placement.fits(s)[hosts].sum()) for s in range(len(problem.shape_gpu))]
    for c, job_class in enumerate(problem.classes):
        if job_class.running:
            continue
        if placement.waiting[c] and all(choice.is_single_task for choice in job_class.choices):
            fit = max(capacity[choice.groups[0].shape] for choice in job_class.choices)
            numbers[c] = min(placement.waiting[c], fit)
    return numbers
