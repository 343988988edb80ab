"""Phases of policy `replicas`: constructed plans, an exact or heuristic search, bounds."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterator
from contextlib import ExitStack
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from placewright.array_types import Bools, Floats
from placewright.formulations.common.phases import Phase, SearchState, leaving_out, run_phases
from placewright.formulations.plan_messages import Bound, Candidate
from placewright.formulations.replicas import parameters
from placewright.formulations.replicas.bounds.prove import (
    prove_bounds,
    relaxation_replicas,
    replica_tree_of,
)
from placewright.formulations.replicas.heuristics.greedy import exchange_homes, greedy_solution
from placewright.formulations.replicas.heuristics.incumbent import Incumbent, search_neighbourhoods
from placewright.formulations.replicas.heuristics.relax_and_fix import search_restricted
from placewright.formulations.replicas.machine_code import ANNEALING, DESCENTS
from placewright.formulations.replicas.models.mip import is_small, solve_lexicographically
from placewright.formulations.replicas.problem.problem import DATA, Problem, Solution
from placewright.formulations.session import Session

if TYPE_CHECKING:
    from placewright.formulations.replicas.bounds.replica_tree import ReplicaTree


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


def run(
    problem: Problem, session: Session, without: Collection[str] = ()
) -> Iterator[Candidate | Bound]:
    """Run the phases of `PHASES`: constructed plans, an exact or heuristic search, bounds.

    A small problem is solved exactly; the plan is then optimal in all terms if no copy of it was
    refused by the links.
    `without`: names of phases to leave out, for an ablation.
    """
    yield from ReplicaSearch(problem, leaving_out(session, without, PHASES)).steps()


class ReplicaSearch(SearchState):
    """The state of one round's search."""

    def __init__(self, problem: Problem, session: Session) -> None:
        super().__init__(session)
        self.problem = problem
        self._incumbent = Incumbent(problem, session)
        self._greedy = self._incumbent.solution
        self._replica_tree: ReplicaTree | None = None
        self._background = ExitStack()
        self._open = self._annealing = False
        self._seconds = self._reserve = 0.0
        self._chosen: Floats | None = None

    def steps(self) -> Iterator[Candidate | Bound]:
        """Yield candidates and bounds, phase by phase."""
        with self._background:
            yield from run_phases(PHASES, self)

    def ended(self) -> bool:
        """Never before the bounds: they are certified even where a solver claims to prove all."""
        return False

    @property
    def _hurried(self) -> bool:
        """Whether the time left is only enough to construct one plan."""
        share = parameters.PARAMETERS.first_plan_time_share
        session = self.session
        return not session.deterministic and session.overdue(-share * session.budget)

    @property
    def _searching(self) -> bool:
        """Whether the problem is searched, as it is too large to be solved exactly."""
        return self._open and self.problem.job_classes > 0 and not is_small(self.problem)

    @cached_property
    def _fixing(self) -> bool:
        """Whether the problem is small enough for relax and fix."""
        problem = self.problem
        copies = (problem.may_hold & ~problem.current)[problem.dataset_class].sum()
        return bool(
            copies <= parameters.PARAMETERS.mip_max_copies
            and problem.job_classes < parameters.PARAMETERS.relax_and_fix_job_classes
        )

    def _plan_without_copies(self) -> Iterator[Candidate]:
        """Yield the greedy plan beside the current replicas."""
        solution = exchange_homes(self.problem, greedy_solution(self.problem, copying=False))
        yield self._incumbent.accept(solution, "without copies")

    def _greedy_plan(self) -> Iterator[Candidate]:
        """Yield the greedy plan; then the time for the search begins, if there is any."""
        self._greedy = exchange_homes(self.problem, greedy_solution(self.problem))
        yield self._incumbent.accept(self._greedy, "greedy")
        self._open = not self.session.expired()
        self._seconds = self.session.remaining()

    def _prepare(self) -> Iterator[Candidate]:
        """Reserve time for bounds, test copies, and yield plans of LNS until code is compiled."""
        # What was refused beside copies of the greedy solution may do beside others.
        self._incumbent.retry_refused_copies()
        values = parameters.PARAMETERS
        share = (
            values.bound_time_share_with_relax_and_fix if self._fixing else values.bound_time_share
        )
        self._reserve = share * self._seconds
        self._annealing = yield from self._wait_for_machine_code(self._reserve)

    def _anneal_once(self) -> Iterator[Candidate]:
        """Yield the plan of one run of annealing."""
        found = anneal(self._incumbent, self._greedy, self._forbidden_copies(0), self._seconds, 0)
        yield self._incumbent.accept(found, "annealing")

    def _grow_tree(self) -> Iterator[Candidate]:
        """Build the replica tree, which grows in the background until the LNS has ended."""
        self._replica_tree = self._build_tree()
        if self._replica_tree is not None:
            self._background.enter_context(self._replica_tree.run_in_background(self._data_goal))
        yield from ()

    def _anneal_again(self) -> Iterator[Candidate]:
        """Yield the plans of more runs of annealing, each recombined with the incumbent."""
        values = parameters.PARAMETERS
        if self._fixing:
            share = values.multi_start_time_share_with_relax_and_fix
        elif self._replica_tree is None:
            share = values.multi_start_time_share
        else:
            share = values.multi_start_time_share_with_tree
        starts = values.max_starts * (1 if self._replica_tree is None else 2)
        most = share * (self.session.remaining() - self._reserve)
        yield from anneal_repeatedly(
            self._incumbent, self._greedy, self._forbidden_copies, self._seconds, starts, most
        )

    def _fix_and_widen(self) -> Iterator[Candidate]:
        """Yield the plans of relax and fix; little time is left for LNS then."""
        self._chosen = yield from search_restricted(self._incumbent, self._reserve)
        if self._chosen is not None:
            # LNS seldom improves on it, and proofs take the time.
            share = parameters.PARAMETERS.lns_time_share_after_relax_and_fix
            left = self.session.remaining()
            self._reserve = max(self._reserve, left - share * self._seconds)

    def _lns(self) -> Iterator[Candidate]:
        """Yield the plans of LNS, near the replicas of relax and fix or of the relaxation."""
        near = self._relaxation_replicas() if self._chosen is None else self._chosen
        yield from search_neighbourhoods(self._incumbent, near, self._reserve)
        self._background.close()

    def _bounds(self) -> Iterator[Bound]:
        """Yield bounds at the values of the best plan."""
        self._background.close()
        best = dict(self.session.best or {})
        yield from prove_bounds(self.problem, self.session, best, self._replica_tree)

    def _wait_for_machine_code(self, reserve: float) -> Generator[Candidate, None, bool]:
        """Say whether there is machine code to anneal with; search without it until there is.

        For a part of the time at most, of which some seconds are kept.
        """
        session = self.session
        if not ANNEALING.available(session) and ANNEALING.missing is not None:
            late = session.remaining() - parameters.PARAMETERS.compilation_wait_time_share * (
                session.remaining() - reserve
            )
            yield from search_neighbourhoods(
                self._incumbent, None, late, lambda: ANNEALING.available(session)
            )
        found = ANNEALING.available(session)
        if found:
            DESCENTS.available(session)  # for the tree; it is made while the first run goes on
        if ANNEALING.missing is not None:
            session.degraded.append(f"nothing was annealed: {ANNEALING.missing}")
        return found

    def _solve_exactly(self) -> Iterator[Candidate | Bound]:
        """Solve the problem exactly, again without the copies that links refuse, until none is."""
        incumbent = self._incumbent
        incumbent.refused = np.zeros_like(self.problem.current)
        while True:
            before = incumbent.refused.copy()
            for step in solve_lexicographically(self.problem, self.session, self._greedy, before):
                yield step if isinstance(step, Bound) else incumbent.accept(step, "exact")
            if (incumbent.refused == before).all() or self.session.expired():
                break

    def _build_tree(self) -> ReplicaTree | None:
        """Return the tree of where the largest data goes, at what the best solution overloads."""
        if self.problem.terms[:3] != ("overload", *DATA):
            return None
        overload, _, _ = self._incumbent.objective
        return replica_tree_of(
            self.problem,
            self.session,
            {"overload": overload},
            parameters.PARAMETERS.relaxation_time_share,
        )

    def _data_goal(self) -> float:
        """Return what data costs in the best plan so far, if it keeps what the tree holds."""
        best = self.session.best or {}
        kept = (
            self._replica_tree is not None
            and dict(self._replica_tree.holds).items() <= best.items()
        )
        return float(sum(best[term] for term in DATA)) if kept else np.inf

    def _forbidden_copies(self, run: int) -> Bools:
        """Return copies (dataset classes, regions) that are not made in a run of annealing.

        The dataset that the tree branches on first may only go to one region where it costs least,
        a different one from run to run.
        """
        found = np.zeros_like(self.problem.current)
        first = None if self._replica_tree is None else self._replica_tree.branching_dataset()
        if first is not None:
            dataset, regions = first
            dataset_class = self.problem.dataset_class[dataset]
            found[dataset_class] = ~self.problem.current[dataset_class]
            found[
                dataset_class,
                regions[(run - 1) % min(parameters.PARAMETERS.guided_regions, len(regions))],
            ] = False
        return found

    def _relaxation_replicas(self) -> Floats | None:
        """Return the replicas (dataset classes, regions) of the relaxation."""
        problem = self.problem
        if self._replica_tree is not None:
            found: Floats | None = self._replica_tree.replicas
        else:
            held = dict(zip(("overload", "remote_reads"), self._incumbent.objective, strict=False))
            found = relaxation_replicas(
                problem, self.session, held, parameters.PARAMETERS.relaxation_time_share
            )
        if found is None:
            return None
        replicas = np.zeros(problem.current.shape)
        replicas[problem.dataset_class] = found
        return replicas


PHASES: tuple[Phase[ReplicaSearch, Candidate | Bound], ...] = (
    Phase("without copies", ReplicaSearch._plan_without_copies, lambda s: not s._hurried),
    Phase("greedy", ReplicaSearch._greedy_plan),
    Phase("exact", ReplicaSearch._solve_exactly, lambda s: s._open and is_small(s.problem)),
    Phase("preparation", ReplicaSearch._prepare, lambda s: s._searching),
    Phase("annealing", ReplicaSearch._anneal_once, lambda s: s._annealing),
    Phase("replica tree", ReplicaSearch._grow_tree, lambda s: s._annealing and not s._fixing),
    Phase("multi-start", ReplicaSearch._anneal_again, lambda s: s._annealing),
    Phase("relax and fix", ReplicaSearch._fix_and_widen, lambda s: s._searching and s._fixing),
    Phase("LNS", ReplicaSearch._lns, lambda s: s._searching),
    # What needs no solver is proven even after the limit.
    Phase(
        "bounds",
        ReplicaSearch._bounds,
        lambda s: not s.session.overdue(parameters.PARAMETERS.grace_s),
    ),
)
"""The order of phases. Their shares of the time are in `parameters.py`, since they are of what is
left before the reserve for bounds."""
