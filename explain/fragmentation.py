"""Fragmentation of what is free: whole hosts and domains, and GPUs that are stranded.

Stranded in three ways: for the tasks to come, as Weng et al. define it (*Beware of Fragmentation*,
USENIX ATC 2023, the term `stranded`); for the jobs that wait; and for tasks of 1, 2, 4, ... whole
GPUs on one host.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from placewright.array_types import Bools, Ints
from placewright.explain.free_domains import free_and_total
from placewright.formulations.gang.placement.host_state import HostState
from placewright.formulations.gang.problem.compile import compile_round
from placewright.formulations.gang.problem.problem import Problem
from placewright.instances.checks.round import trusted
from placewright.instances.documents.plan import Plan
from placewright.instances.documents.round import Round
from placewright.instances.policies import GANG
from placewright.instances.verify import verify
from placewright.rounds.decisions import DefaultDecisions
from placewright.topology.units import WHOLE_GPU


@dataclass(frozen=True, slots=True)
class WholeDomains:
    """Domains of a level that have GPUs, and those of them all of whose GPUs are free and open.

    That is, on hosts on which nothing runs, and which are healthy, not to be vacated, and without
    any reservation.
    """

    level: str
    free: int
    total: int


@dataclass(frozen=True, slots=True)
class WholeTasks:
    """Tasks of `gpus` whole GPUs that free GPUs have room for, and what no such task can use.

    GPUs alone count, no other resource; a task is on one host.
    """

    gpus: int
    tasks: int
    stranded: int


@dataclass(frozen=True, slots=True)
class Fragmentation:
    """What is free on open hosts, in milli-GPU, and who can use it.

    Parameters
    ----------
    free
        Milli-GPU that are free on open hosts, without reserved GPUs.
    whole
        Free GPUs that nothing holds a part of.
    domains
        Per level, outermost first; the last one is that of hosts.
    stranded
        Milli-GPU that a task of the mix cannot use, on average: the term `stranded` over the
        weight of the mix. None if the mix is empty.
    useless
        Milli-GPU on GPUs that no task of a waiting job can use now, be it for lack of CPU or
        memory. None if no job waits.
    tasks
        For tasks of 1, 2, 4, ... whole GPUs, up to the most that a host has.
    """

    free: int
    whole: int
    domains: tuple[WholeDomains, ...]
    stranded: float | None
    useless: int | None
    tasks: tuple[WholeTasks, ...]


def is_measured(round_: Round) -> bool:
    """Whether fragmentation is measured in a round: those of policy `gang`."""
    return round_.policy.spec is GANG


def fragmentation_of(round_: Round) -> Fragmentation:
    """Return the fragmentation of a round beside the jobs that run."""
    problem = compile_round(round_)
    state = HostState(problem)
    gpus = _free(problem, state)
    kept = Plan(decisions=DefaultDecisions()(round_))
    free, total = free_and_total(round_, kept)
    whole = (gpus == WHOLE_GPU).sum(axis=1)
    sizes = 1 << np.arange(int(problem.cluster.gpu_count.max(initial=0)).bit_length())
    return Fragmentation(
        free=int(gpus.sum()),
        whole=int(whole.sum()),
        domains=tuple(WholeDomains(level, free[level], total[level]) for level in total),
        stranded=_stranded(round_, kept),
        useless=_useless(problem, state, gpus),
        tasks=tuple(
            WholeTasks(
                size, fits := int((whole // size).sum()), int(gpus.sum()) - fits * size * WHOLE_GPU
            )
            for size in sizes.tolist()
        ),
    )


def _free(problem: Problem, state: HostState) -> Ints:
    """Return the free milli-GPU of each GPU of an open host that is not reserved (hosts, most)."""
    counts = problem.cluster.gpu_count
    exists = np.arange(state.gpu_free.shape[1]) < counts[:, None]
    usable = np.zeros(exists.shape, dtype=np.bool_)
    usable[exists] = problem.usable
    free: Ints = np.where(usable & problem.open[:, None], state.gpu_free, 0)
    return free


def _useless(problem: Problem, state: HostState, free: Ints) -> int | None:
    """Return the milli-GPU that no task of a waiting job can use; None if none waits."""
    shapes = {
        group.shape
        for one in problem.classes
        if not one.running and one.jobs
        for choice in one.choices
        for group in choice.groups
    }
    if not shapes:
        return None
    useful: Bools = np.zeros(free.shape, dtype=np.bool_)
    for shape in shapes:
        gpu = int(problem.shape_gpu[shape])
        if gpu:
            useful |= (state.fits(shape) > 0)[:, None] & (free >= min(gpu, WHOLE_GPU))
    return int(free[~useful].sum())


def _stranded(round_: Round, kept: Plan) -> float | None:
    mix = round_.policy.mix
    if mix is not None:
        weight = sum(kind.weight for kind in mix)
    else:
        options = (job.options[job.running.option if job.running else 0] for job in round_.jobs)
        weight = sum(g.count for option in options for g in option.groups if g.mig is None)
    if not weight:
        return None
    policy = round_.policy.model_copy(update={"terms": ("value", "stranded")})
    asked = round_.model_copy(update={"policy": policy})
    return verify(trusted(asked), kept).terms["stranded"] / weight
