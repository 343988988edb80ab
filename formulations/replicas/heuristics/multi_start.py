"""Multi-start annealing: each outcome is polished by a MIP and recombined with the incumbent."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from placewright.array_types import Bools
from placewright.formulations.plan_messages import Candidate
from placewright.formulations.replicas import parameters
from placewright.formulations.replicas.heuristics.greedy import exchange_homes
from placewright.formulations.replicas.heuristics.incumbent import Incumbent
from placewright.formulations.replicas.solution import Solution


def anneal(
    incumbent: Incumbent, solution: Solution, forbidden: Bools, seconds: float, run: int
) -> Solution:
    """Return what comes of a solution by annealing, in its share of `seconds`.

    In the end all homes are decided anew beside the replicas: to fill what there is to the last GPU
    takes many jobs that move together.
    `forbidden` (dataset classes, regions): copies that are not made. `run`: number of the run, for
    other random numbers.
    """
    # Only here, as it needs a compiler.
    from placewright.formulations.replicas.heuristics.annealing import Annealing

    problem, session, values = incumbent.problem, incumbent.session, parameters.PARAMETERS
    may_hold = problem.may_hold & ~incumbent.refused & ~forbidden
    annealing = Annealing(problem, solution, may_hold, session.seed + run)
    found = exchange_homes(problem, annealing.run(session, values.annealing_time_share * seconds))
    search = incumbent.search_from(found)
    search.reoptimise_homes(values.home_mip_time_share * seconds)
    return search.solution


def anneal_repeatedly(
    incumbent: Incumbent,
    solution: Solution,
    forbidden: Callable[[int], Bools],
    seconds: float,
    starts: int,
    most: float,
) -> Iterator[Candidate]:
    """Anneal a solution again and again; yield what improves the incumbent when recombined with it.

    `forbidden`: returns the forbidden copies of a run. `seconds`: time of the whole search.
    `starts`: number of runs, the first one, which is over, included. `most`: seconds for all of
    them.
    """
    until = incumbent.session.remaining() - most
    for run in range(1, starts):
        if incumbent.session.expired(until):
            break
        found = anneal(incumbent, solution, forbidden(run), seconds, run)
        found = incumbent.recombine(found, parameters.PARAMETERS.recombination_time_share * seconds)
        if found.objective(incumbent.problem) < incumbent.objective:
            yield incumbent.accept(found, "recombination")
