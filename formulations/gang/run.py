"""The gang formulation: a greedy plan, aggregate models, and the exact model where it is small."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from typing import TypeAlias

from placewright.formulations.common.phases import Phase, leaving_out, run_phases
from placewright.formulations.gang import parameters
from placewright.formulations.gang.bounds import contention_bounds, freed_bounds, trivial_bounds
from placewright.formulations.gang.heuristics.contention import relieve_links
from placewright.formulations.gang.heuristics.link_exchange import exchange_for_links
from placewright.formulations.gang.heuristics.migration import (
    COUNT_SEARCH,
    DISPLACEMENT,
    MIGRATION,
    displaces_by_model_first,
    evacuate_at_once,
    migrate,
    search_counts,
    search_small_counts,
)
from placewright.formulations.gang.heuristics.repacking import repack_tasks
from placewright.formulations.gang.heuristics.resizing import resize_by_counts
from placewright.formulations.gang.heuristics.ruin_and_recreate import (
    large_neighbourhood_search,
    search_fragmentation,
)
from placewright.formulations.gang.heuristics.search import Search, Steps, close_enough
from placewright.formulations.gang.models.aggregate.host_classes import only_powers_of_two
from placewright.formulations.gang.models.aggregate.solve import (
    MODELLED_TERMS,
    aggregate_models,
    bound_by_relaxation,
    bound_by_whole_jobs,
    collect_bounds,
    later_bounds,
)
from placewright.formulations.gang.models.host.model import num_task_variables
from placewright.formulations.gang.models.host.solve import solve_exactly as run_exact
from placewright.formulations.gang.placement.assignment import assign
from placewright.formulations.gang.placement.disruption_budget import repair_disruptions
from placewright.formulations.gang.placement.greedy import fill_by_policy, upgrade_options
from placewright.formulations.gang.placement.placement import Placement, placement_of
from placewright.formulations.gang.problem.gpu_links import GPU_LINKS
from placewright.formulations.gang.problem.limits import (
    CONTENTION,
    ENTITLED,
    FREED,
    PROGRESS,
    VALUE,
)
from placewright.formulations.gang.problem.problem import Problem
from placewright.formulations.gang.problem.terms import STRANDED
from placewright.formulations.plan_messages import SHARPNESS, Bound, Candidate, near
from placewright.formulations.session import Session

# Plans once more, their overloaded links relieved (contention.py).


Decide = Callable[[Problem, Session], Steps]


def with_relieved_links(problem: Problem, session: Session, decide: Decide) -> Steps:
    """Yield the steps of a search, and its best plan with less contention, if found.

    As soon as all terms before are proven, and at the end: where no link is overloaded, the term
    needs no model.
    """
    if CONTENTION not in problem.terms:
        yield from decide(problem, session)
        return
    before = problem.terms[: problem.terms.index(CONTENTION)]
    best: Candidate | None = None
    tried: Candidate | None = None
    share = parameters.PARAMETERS.neighbourhood.uplink_share
    for step in decide(problem, session.part(1 - share)):
        known = session.best
        yield step
        if isinstance(step, Candidate) and session.best != known:
            best = step
        if best is not tried and best is not None and _are_proven(session, before):
            tried = best
            yield from _relieved(problem, session, best)
    if best is not tried and best is not None:
        yield from _relieved(problem, session, best)


def _are_proven(session: Session, terms: Sequence[str]) -> bool:
    """Whether the bounds of some terms equal the values of the best plan, but for rounding."""
    best, bounds = session.best, session.best_known.bounds
    return best is not None and all(
        term in bounds and near(bounds[term], best[term], SHARPNESS) for term in terms
    )


def _relieved(problem: Problem, session: Session, candidate: Candidate) -> Steps:
    if session.expired() or _are_proven(session, [CONTENTION]):
        return
    yield from contention_bounds(problem, session)
    if _are_proven(session, [CONTENTION]):
        return
    placement = placement_of(problem, candidate)
    if relieve_links(placement, session, session.best_known.bounds.get(CONTENTION, 0.0)):
        repair_disruptions(placement)
        yield assign(placement, "relieved links")


# `models/host/`, `models/aggregate/model.py` and `models/aggregate/host_columns.py` say what each
# model is exact for. The first term is bounded over a relaxation. Every later one is bounded with
# the earlier terms held at the verified values of the best plan (docs/bounds.md).


Applies: TypeAlias = Callable[[Search], bool]


def run(
    problem: Problem, session: Session, without: Collection[str] = ()
) -> Iterator[Candidate | Bound]:
    """Run the phases of `PHASES`: the greedy plan and bounds without a solver, then better ones.

    Phases named in `without`, also of those in `migration.py`, are left out; `ValueError` if there
    is none of such a name.
    """

    def phases(problem: Problem, session: Session) -> Steps:
        return run_phases(PHASES, Search(session, problem))

    lists = PHASES, MIGRATION, COUNT_SEARCH
    yield from with_relieved_links(problem, leaving_out(session, without, *lists), phases)


def _greedy(search: Search) -> Steps:
    search.greedy = Placement(search.problem)
    fill_by_policy(search.greedy)
    yield from search.report(search.greedy, "greedy")


def _bound_trivially(search: Search) -> Steps:
    yield from trivial_bounds(search.problem)


def _upgrade(search: Search) -> Steps:
    if search.greedy is not None:
        upgrade_options(search.greedy)
        yield from search.report(search.greedy, "upgrade")


def _search_fragmentation(search: Search) -> Steps:
    yield from search_fragmentation(search.problem, search.session)
    # Later phases serve a first term that is not proven within the gap, and terms in a model.
    others = set(search.problem.terms[1:])
    modelled = small(search.problem) or others & set(MODELLED_TERMS)
    search.finished = search.close_enough() and not modelled


def _solve_exactly(search: Search) -> Steps:
    search.solved_exactly = True
    yield from run_exact(search.problem, search.session, search.best_plan)


def _try_exactly(search: Search) -> Steps:
    """Solve the host-indexed model if that is soon done; else counts are searched before it.

    Only the clock ends it soon: what it proves, it mostly proves at the root of branch and bound.
    """
    most = parameters.PARAMETERS.run.max_first_exact_seconds
    yield from run_exact(search.problem, search.session, search.best_plan, most)


def _bound_freed(search: Search) -> Steps:
    yield from freed_bounds(search.problem, search.session)


def _relax(search: Search) -> Steps:
    """Build the aggregate models, and bound the first term by the relaxation of the tightest.

    Heuristics start from the relaxation of `value`, the weighted sum of priority classes.
    """
    if search.greedy is None:
        return
    search.models = aggregate_models(search.problem, search.greedy)
    search.tightest = next(search.models)
    if search.first in MODELLED_TERMS:
        search.relaxation = search.first_relaxation = yield from bound_by_relaxation(
            search.session, *search.tightest, search.problem.terms[0]
        )
    if search.problem.terms[0] != search.first:
        _, search.relaxation = collect_bounds(
            bound_by_relaxation(search.session, *search.tightest, search.first)
        )


def _bound_by_whole_jobs(search: Search) -> Steps:
    if search.tightest is not None and search.relaxation is not None:
        yield from bound_by_whole_jobs(search.session, search.tightest, search.relaxation, VALUE)


def _without_improvement(search: Search) -> Session:
    """Return the session of a search of counts; before an exact model it leaves out LNS.

    That comes after the model, if the gap is still open.
    """
    session = search.session
    if not small(search.problem):
        return session
    return replace(session, without=session.without | {"LNS", "LNS of counts"})


def _migrate(search: Search) -> Steps:
    if search.tightest is not None:
        yield from migrate(
            _without_improvement(search),
            search.problem,
            search.tightest,
            search.relaxation,
            search.incumbent,
        )


def _repack(search: Search) -> Steps:
    """Repack one-task jobs for the first term, whatever the later ones are."""
    if search.tightest is None or search.greedy is None:
        return
    packed = repack_tasks(search.session, search.tightest, search.relaxation, search.greedy)
    if packed is not None:
        yield from search.report(packed, "repacking")
        search.repacked = True
        search.incumbent = packed
        search.greedy = max(search.greedy, packed, key=lambda p: p.value)


def _search_counts(search: Search) -> Steps:
    if search.tightest is not None and search.greedy is not None:
        yield from search_counts(
            _without_improvement(search),
            search.problem,
            search.greedy,
            search.tightest,
            search.models,
            search.relaxation,
            search.first_relaxation,
        )


def _bound_later_terms(search: Search) -> Steps:
    if search.tightest is not None:
        yield from later_bounds(search.session, *search.tightest)


def _evacuates(search: Search) -> bool:
    problem = search.problem
    return bool(problem.running) and (search.first == FREED or bool(problem.vacate.any()))


def _counts_may_prove(search: Search) -> bool:
    """Whether the aggregate model of a small round may prove its first term."""
    problem = search.problem
    return small(problem) and search.first in (VALUE, PROGRESS) and not problem.running


def _tiny(search: Search) -> bool:
    """Whether the host-indexed model is solved sooner than any search of counts ends."""
    tuning = parameters.PARAMETERS.run
    limit = min(tuning.max_tiny_variables, tuning.max_exact_variables)
    return num_task_variables(search.problem, limit) <= limit


def _searches_counts(search: Search) -> bool:
    """Whether counts are searched before the host-indexed model, if there is one at all.

    Not in a tiny round, nor where the aggregate model cannot help the first term of a small one.
    """
    if not small(search.problem):
        return True
    helps = search.first in (VALUE, PROGRESS, ENTITLED) and not search.close_enough()
    return helps and not _tiny(search)


def _share_of_counts(search: Search) -> float:
    """Return the share of the time for a phase before the host-indexed model of a small round."""
    if not small(search.problem):
        return 1.0
    tuning = parameters.PARAMETERS.run
    least = tuning.counts_seconds / max(search.session.remaining(), tuning.counts_seconds)
    return max(tuning.counts_share, min(tuning.max_counts_share, least))


def _displaces_at_once(search: Search) -> bool:
    return _searches_counts(search) and not displaces_by_model_first(search)


def _share_of_relaxation(search: Search) -> float:
    """Return the share for the first relaxation: less where displacement is still to come."""
    share = _share_of_counts(search)
    if displaces_by_model_first(search):
        share = min(share, parameters.PARAMETERS.run.first_relaxation_share)
    return share


def _share_of_first_lns(search: Search) -> float:
    """Return the share for LNS before the host-indexed model: less, the sooner that is solved."""
    tuning = parameters.PARAMETERS.run
    seconds = num_task_variables(search.problem) / tuning.exact_variables_per_second
    return min(tuning.exact_share, seconds / max(search.session.remaining(), seconds))


def _leaves_gap(search: Search) -> bool:
    return search.first == VALUE and search.best_plan is not None and not search.has_slices


def _improve_best(search: Search) -> Steps:
    """Improve the best plan of all phases by LNS with the time that they left."""
    if search.best_plan is not None:
        placement = placement_of(search.problem, search.best_plan)
        yield from large_neighbourhood_search(search.problem, search.session, placement)


def _asks_for_links(search: Search) -> bool:
    links, terms = search.problem.link_demands, search.problem.terms
    return GPU_LINKS in terms and links is not None and any(links.asked)


def _exchange_for_links(search: Search) -> Steps:
    """Exchange tasks of the best plan so that who asks for links has them."""
    if search.best_plan is not None:
        placement = placement_of(search.problem, search.best_plan)
        if exchange_for_links(placement, search.session):
            yield from search.report(placement, "links")


def _relaxed(search: Search) -> bool:
    return search.tightest is not None


def _resizes(search: Search) -> bool:
    return _relaxed(search) and search.problem.resizes


def _migrates(search: Search) -> bool:
    return _relaxed(search) and bool(search.problem.running)


def _both(first: Applies, second: Applies) -> Applies:
    return lambda search: first(search) and second(search)


def _repacks(search: Search) -> bool:
    problem = search.problem
    return (
        _relaxed(search)
        and not problem.running
        and not problem.pools  # host by host it would fill domains beyond them
        and search.first == VALUE
        and not only_powers_of_two(problem)
    )


def _counts_may_gain(search: Search) -> bool:
    """Whether a search of counts may improve the plan of a round in which no job runs.

    Not if the only term is proven within the gap, nor if the repacked plan is within the gap and
    `progress` is no term.
    """
    if search.problem.running or not _relaxed(search):
        return False
    if len(search.problem.weighted_terms) == 1 and search.close_enough():
        return False
    packed = search.incumbent if search.repacked else None
    if packed is None or PROGRESS in search.problem.terms:
        return True
    return not close_enough(search.problem, search.session, packed)


def _exact_is_left(search: Search) -> bool:
    """Whether to solve the host-indexed model, now that counts have been searched.

    In a round that is not small it may take all the time: not for later terms alone.
    """
    if search.solved_exactly or small(search.problem):
        return not search.solved_exactly
    tuning = parameters.PARAMETERS.run
    limit = tuning.max_last_times * tuning.max_exact_variables
    few = len(search.problem.running) <= limit and not search.close_enough()
    return few and num_task_variables(search.problem, limit) <= limit


def small(problem: Problem) -> bool:
    """Whether the host-indexed model of the whole round is small enough to solve."""
    limit = parameters.PARAMETERS.run.max_exact_variables
    return len(problem.running) <= limit and num_task_variables(problem, limit) <= limit


PHASES = (
    Phase("greedy", _greedy),
    Phase("trivial bounds", _bound_trivially),
    Phase("upgrade", _upgrade, lambda s: PROGRESS in s.problem.terms),
    Phase("evacuation", evacuate_at_once, _evacuates),
    Phase(
        "fragmentation search",
        _search_fragmentation,
        lambda s: STRANDED in s.problem.terms,
        needs_time=True,
    ),
    Phase(
        "exchange for links before a model",
        _exchange_for_links,
        _both(_asks_for_links, lambda s: small(s.problem)),
        needs_time=True,
    ),
    Phase(
        "first host-indexed model",
        _try_exactly,
        lambda s: _counts_may_prove(s) and _searches_counts(s) and not s.session.deterministic,
        share=lambda _: parameters.PARAMETERS.run.first_exact_share,
        needs_time=True,
    ),
    Phase("counts of a small round", search_small_counts, _counts_may_prove, needs_time=True),
    Phase(
        "host-indexed model at once",
        _solve_exactly,
        lambda s: small(s.problem) and not _searches_counts(s),
        needs_time=True,
    ),
    *(replace(p, applies=_both(_displaces_at_once, p.applies)) for p in DISPLACEMENT),
    Phase(
        "bound of freed",
        _bound_freed,
        lambda s: s.first == FREED and not small(s.problem),
        needs_time=True,
    ),
    Phase("relaxation", _relax, _searches_counts, share=_share_of_relaxation, needs_time=True),
    Phase(
        "whole jobs",
        _bound_by_whole_jobs,
        lambda s: _relaxed(s) and bool(s.problem.quota) and s.problem.terms[0] == VALUE,
        share=lambda _: parameters.PARAMETERS.models.whole_jobs_share,
        needs_time=True,
        needs_gap=True,
    ),
    Phase("resizing", resize_by_counts, _resizes, share=_share_of_counts, needs_time=True),
    Phase("migration", _migrate, _migrates, share=_share_of_counts),
    Phase("repacking", _repack, _repacks, share=_share_of_counts, needs_time=True, needs_gap=True),
    Phase("counts", _search_counts, _counts_may_gain, share=_share_of_counts),
    Phase(
        "first LNS of the best plan",
        _improve_best,
        lambda s: _leaves_gap(s) and small(s.problem) and not s.solved_exactly,
        share=_share_of_first_lns,
        needs_time=True,
        needs_gap=True,
    ),
    Phase("exchange for links", _exchange_for_links, _asks_for_links, needs_time=True),
    Phase(
        "host-indexed model",
        _solve_exactly,
        _exact_is_left,
        share=lambda _: parameters.PARAMETERS.run.exact_share,
        needs_time=True,
    ),
    Phase("bounds of later terms", _bound_later_terms, _relaxed, needs_time=True),
    Phase("LNS of the best plan", _improve_best, _leaves_gap, needs_time=True, needs_gap=True),
)
"""The portfolio. Shares of the time of single solves stand in `parameters.py`."""
