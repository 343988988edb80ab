"""The portfolios of large rounds: counts alone, or running jobs that may move or stop besides."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from math import inf

from placewright.formulations.common.phases import Phase, run_phases
from placewright.formulations.gang import parameters
from placewright.formulations.gang.heuristics.disaggregation import disaggregate, round_relaxation
from placewright.formulations.gang.heuristics.displace import (
    displaced,
    displaced_at,
)
from placewright.formulations.gang.heuristics.freed import empty_domains, evacuate, repack_domains
from placewright.formulations.gang.heuristics.gang_insertion import insert_gangs
from placewright.formulations.gang.heuristics.host_victims import displace_by_hosts
from placewright.formulations.gang.heuristics.repacking import displace_by_model, repack_tasks
from placewright.formulations.gang.heuristics.ruin_and_recreate import large_neighbourhood_search
from placewright.formulations.gang.heuristics.search import (
    Search,
    Steps,
    close_enough,
    scalarise_entitled,
    scalarise_progress,
)
from placewright.formulations.gang.models.aggregate.accounts import budget_prices
from placewright.formulations.gang.models.aggregate.host_classes import only_powers_of_two
from placewright.formulations.gang.models.aggregate.host_columns import HostPatterns
from placewright.formulations.gang.models.aggregate.solve import (
    PricedModel,
    aggregate_models,
    bound_by_relaxation,
    collect_bounds,
    later_bounds,
    search_term_by_term,
)
from placewright.formulations.gang.models.host.model import num_task_variables
from placewright.formulations.gang.models.host.solve import select_victims
from placewright.formulations.gang.placement.assignment import assign
from placewright.formulations.gang.placement.disruption_budget import complete, repair_disruptions
from placewright.formulations.gang.placement.greedy import fill_by_policy, upgrade_options
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.limits import (
    DISRUPTION,
    ENTITLED,
    FREED,
    PROGRESS,
    VALUE,
)
from placewright.formulations.gang.problem.problem import Problem
from placewright.formulations.gang.problem.subproblem import residual
from placewright.formulations.plan_messages import Candidate, near
from placewright.formulations.session import Session
from placewright.solver import Outcome

# Search of the aggregate models: plans for jobs that start around the running ones.


def search_counts(
    session: Session,
    problem: Problem,
    greedy: Placement,
    tightest: PricedModel,
    models: Iterator[PricedModel],
    relaxation: Outcome | None = None,
    first_relaxation: Outcome | None = None,
) -> Steps:
    """Run the phases of `COUNT_SEARCH`, starting from a greedy placement.

    Parameters
    ----------
    tightest, models
        The aggregate model to try first, and the others.
    relaxation, first_relaxation
        The linear relaxation of the first one, solved for `value` and for the first term.
    """
    search = Search(session, problem)
    search.greedy = search.incumbent = greedy
    search.tightest, search.models = tightest, models
    search.relaxation, search.first_relaxation = relaxation, first_relaxation
    yield from run_phases(COUNT_SEARCH, search)


def _round(search: Search) -> Steps:
    if search.tightest is None:
        return
    placement = round_relaxation(search.session, search.tightest, search.relaxation)
    if placement is not None:
        yield from _take(search, placement, "rounding")


def _search_models(search: Search) -> Steps:
    """Search the models in turn until a plan is close enough to the tightest bound."""
    tightest = search.tightest
    if tightest is None:
        return
    for model in chain([tightest], search.models):
        # The optimum of a relaxation covers only the patterns that the model had then.
        same = model is tightest and model.patterns is None
        known = search.first_relaxation if same else None
        values = yield from search_term_by_term(search.session, *model, known)
        if values is not None:
            placement = disaggregate(*model, values, search.session)
            yield from _take(search, placement, "counts")
            if isinstance(tightest.patterns, HostPatterns):
                tightest.patterns.add_patterns_of(placement)
        if search.close_enough():
            break


def _take(search: Search, placement: Placement, source: str) -> Steps:
    """Yield a placement with its options upgraded; it becomes the incumbent if worth more."""
    upgrade_options(placement)
    yield from search.report(placement, source)
    if search.incumbent is None or placement.value > search.incumbent.value:
        search.incumbent = placement


def _improve(search: Search) -> Steps:
    """Improve the best placement by LNS."""
    if (placement := search.best_placement()) is not None:
        yield from large_neighbourhood_search(search.problem, search.session, placement)


def search_small_counts(search: Search) -> Steps:
    """Search the counts of a small round where the host-indexed model does not do as well."""
    model = _aggregate_model_of_small(search.problem, search.greedy) if search.greedy else None
    if model is not None:
        yield from _search_aggregate_model(search.problem, search.session, model)


def _aggregate_model_of_small(problem: Problem, greedy: Placement) -> PricedModel | None:
    """Return the aggregate model of a small round; None if the host-indexed one does as well.

    Where all sizes are powers of two, its sums are exact, but for the tree. With host patterns, it
    has no symmetry of equal hosts; in the host-indexed model that costs branch and bound many
    nodes.
    """
    powers_of_two = only_powers_of_two(problem)
    if (
        not powers_of_two
        and num_task_variables(problem) < parameters.PARAMETERS.run.min_pattern_variables
    ):
        return None
    model = next(aggregate_models(problem, greedy))
    return model if powers_of_two or isinstance(model.patterns, HostPatterns) else None


def _search_aggregate_model(problem: Problem, session: Session, model: PricedModel) -> Steps:
    """Search the counts of a small round: sums to the end, host patterns for part of the time."""
    relaxed = yield from bound_by_relaxation(session, *model, problem.terms[0])
    if model.patterns is None:
        values = yield from search_term_by_term(session, *model, relaxed, gap=0.0)
    else:
        share = parameters.PARAMETERS.run.pattern_search_share
        values = yield from search_term_by_term(session, *model, gap=0.0, share=share)
    if values is not None:
        placement = disaggregate(*model, values, session)
        upgrade_options(placement)
        done = problem.terms == (VALUE,) and session.settled(placement.value)
        repair_disruptions(placement)
        complete(placement)
        yield assign(placement, "counts", final=done)
    if not session.proven:
        yield from later_bounds(session, *model)


COUNT_SEARCH = (
    Phase("LP rounding", _round),
    Phase("relaxation of classes", Search.relax_classes, Search.has_classes, needs_time=True),
    Phase("count search", _search_models),
    Phase("bounds of classes", Search.bound_classes, Search.has_classes, needs_time=True),
    Phase("LNS of counts", _improve, needs_gap=True),
)
"""Phases over the aggregate models; disaggregation needs no time that a solver would."""


# Migration and preemption: phases for rounds in which running jobs may move or stop.


SCALARISED_GAP = 1e-9


def evacuate_at_once(search: Search) -> Steps:
    """Yield a plan that evacuates or frees hosts, made without a solver."""
    placement = Placement(search.problem)
    evacuate(placement)
    if search.first == FREED:
        empty_domains(placement)
    fill_by_policy(placement)
    yield from search.report(placement, "evacuation")


def _improves_by_displacement(search: Search) -> bool:
    """Whether to displace running jobs without a model, which may take all of the time.

    Not where the round is part of a decision that has a plan, nor on rounds so large that
    displacement itself would take much of the time.
    """
    displaces = search.first == VALUE and search.problem.running and not search.session.has_plan
    most = parameters.PARAMETERS.insertion.host_option_pairs_per_second
    return bool(displaces) and _pairs_per_second(search) <= most


def displaces_by_model_first(search: Search) -> bool:
    """Whether there is ample time for the model: what it proves to be the best needs no other plan.

    Then jobs are displaced without it only where it finds nothing, or there are quotas. Patterns
    that are good for the sum of priority classes are poor for each: there it does not come first.
    """
    most = parameters.PARAMETERS.insertion.ample_pairs_per_second
    is_ample = _improves_by_displacement(search) and _pairs_per_second(search) <= most
    return is_ample and not search.has_classes()


def _pairs_per_second(search: Search) -> float:
    """Return the (host, pending option) pairs per second left, by which displacement takes time."""
    problem, left = search.problem, search.session.remaining()
    options = sum(len(c.choices) for c in problem.classes if not c.running)
    return options * problem.cluster.num_hosts / left if left > 0 else inf


def _displace_at_once(search: Search) -> Steps:
    best = search.session.best
    value = None if best is None else search.problem.weighted_value(best)
    placement = displaced(search.problem, search.session)
    upgrade_options(placement)
    if value is None or placement.value > value:
        yield from search.report(placement, "displacing")
    search.incumbent, search.reported_value = placement, placement.value


def _insert_at_once(search: Search) -> Steps:
    if search.incumbent is not None:
        before = search.incumbent.value
        insert_gangs(search.session, search.incumbent)
        if search.incumbent.value > before:
            yield from search.report_improvement(search.incumbent, "gang insertion")


DISPLACEMENT = (
    Phase("displacement", _displace_at_once, _improves_by_displacement, needs_gap=True),
    Phase(
        "first gang insertion",
        _insert_at_once,
        lambda s: s.incumbent is not None,
        share=lambda _: parameters.PARAMETERS.insertion.first_insertion_share,
        needs_gap=True,
    ),
)
"""Phases of a large round without a solver, before any model."""


def _insert_while_improving(session: Session, placement: Placement) -> None:
    """Insert gangs until a pass gains no value: jobs that stop in one may start in the next."""
    before = -inf
    while placement.value > before:
        before = placement.value
        insert_gangs(session, placement)


def migrate(
    session: Session,
    problem: Problem,
    tightest: PricedModel,
    relaxation: Outcome | None,
    incumbent: Placement | None = None,
) -> Steps:
    """Run the phases of `MIGRATION`: running jobs move or stop where that improves the plan.

    Parameters
    ----------
    tightest, relaxation
        An aggregate model, and its linear relaxation solved for the first term, if it was.
    incumbent
        The placement with which the search begins, and to which it returns if none found by
        displacement is worth as much.
    """
    search = Search(session, problem)
    search.tightest, search.relaxation, search.incumbent = tightest, relaxation, incumbent
    search.reported_value = -inf if incumbent is None else incumbent.value
    yield from run_phases(MIGRATION, search)


def _displace_by_model(search: Search) -> Steps:
    """Displace by the model; greedily, too, where that does not apply or there are quotas.

    The better placement becomes the incumbent; greedy displacement is left out if there is one.
    """
    problem, known = search.problem, search.incumbent
    if search.tightest is None:
        return
    found = None
    if search.first == VALUE:
        found = displace_by_model(
            search.session, search.tightest, search.relaxation, of_classes=search.class_relaxation
        )
    if found is None and search.session.expired():
        search.finished = True
        return
    if search.first == ENTITLED:
        yield from _run_scalarised(search, scalarise_entitled(problem))
    if found is not None and (problem.quota or problem.budget):
        repair_disruptions(found)
    if search.first == VALUE and problem.budget is not None:
        duals = None if search.relaxation is None else search.relaxation.row_duals
        prices = budget_prices(search.tightest.aggregate, duals)
        priced = displaced_at(problem, prices)
        found = max((p for p in (found, priced) if p), key=lambda p: p.value)
    if search.first == VALUE and known is None and (found is None or problem.quota):
        # Where a quota is used up, a job that starts has to stop others of the same tenant.
        greedily = displaced(problem, search.session)
        found = max((p for p in (found, greedily) if p), key=lambda p: p.value)
    if found is not None:
        search.incumbent = found
        upgrade_options(found)
        yield from search.report_improvement(found, "displacing")


def _repack(search: Search) -> Steps:
    """Repack one-task jobs; the result becomes the incumbent if it is worth more."""
    if search.tightest is None or search.incumbent is None:
        return
    packed = repack_tasks(search.session, search.tightest, search.relaxation, search.incumbent)
    if packed is not None and packed.value > search.incumbent.value:
        search.incumbent, search.repacked = packed, True
        yield from search.report_improvement(packed, "repacking")


def _insert_gangs(search: Search) -> Steps:
    if search.incumbent is not None:
        before = search.incumbent.value
        _insert_while_improving(search.session, search.incumbent)
        if search.incumbent.value > before:
            yield from search.report_improvement(search.incumbent, "gang insertion")


def _displace_at_least_cost(search: Search) -> Steps:
    """At the value that is proven, find victims of least cost: by hosts, or else by the model."""
    best = search.session.best
    if search.tightest is None or best is None:
        return
    plan = search.best_placement()
    if plan is not None and any(plan.stopped):
        by_hosts = displace_by_hosts(search.session, search.tightest, plan)
        if by_hosts is not None:
            yield from search.report_improvement(by_hosts, "displacing")
        if search.session.best != best:
            return
    value = search.problem.weighted_value(best)
    found = displace_by_model(search.session, search.tightest, search.relaxation, best)
    if found is not None and (found.value >= value or not search.session.expired()):
        if found.value < value:
            _insert_while_improving(search.session, found)
        upgrade_options(found)
        yield from search.report_improvement(found, "displacing")


def _select_victims(search: Search) -> Steps:
    yield from select_victims(search.problem, search.session)


def _scalarise_progress(search: Search) -> Steps:
    scalarised = scalarise_progress(search.problem)
    if scalarised is not None:
        yield from _run_scalarised(search, scalarised)


def _improve_incumbent(search: Search) -> Steps:
    search.improved = True
    yield from _improve(search)


def _evacuate(search: Search) -> Steps:
    """Yield a plan in which only those jobs move that have to, or whose moves free domains."""
    placement = Placement(search.problem)
    evacuate(placement)
    if search.first == FREED:
        empty_domains(placement)
    repair_disruptions(placement)
    search.evacuated = assign(placement, "evacuation")
    yield search.evacuated


def _repack_domains(search: Search) -> Steps:
    """Repack one-task jobs on fewer hosts; keep that as the evacuated plan if it frees more."""
    packed = repack_domains(search.problem, search.session)
    if packed is not None and search.session.best is not None:
        before = search.session.best[FREED]
        repair_disruptions(packed)
        found = assign(packed, "domain repacking")
        yield found
        if search.session.best[FREED] > before:
            search.evacuated = found


def _search_residual(search: Search) -> Steps:
    """Fix the running jobs as in the evacuated plan, and search the counts of the pending ones."""
    moved = search.evacuated
    if moved is None:
        return
    fixed = residual(search.problem, moved.starts, moved.slots)
    if not fixed.terms:
        return
    placement = Placement(fixed)
    fill_by_policy(placement)
    models = aggregate_models(fixed, placement)
    # Where its first term is another, what is known of the round's ends no search.
    same = fixed.weighted_terms[0] == search.first
    session = search.session if same else search.session.inner()
    for step in search_counts(session, fixed, placement, next(models), models):
        # Bounds of the residual problem do not hold for this one.
        if isinstance(step, Candidate):
            yield replace(
                step,
                starts={**moved.starts, **step.starts},
                slots={**moved.slots, **step.slots},
            )


def _run_scalarised(search: Search, scalarised: Problem) -> Steps:
    """Yield the plans of a scalarised round; its bounds are of another objective.

    Of the sum, in which one term outweighs the other, a gap would say nothing of the latter.
    """
    session = replace(search.session.inner(), gap=SCALARISED_GAP)
    inner = Search(session, scalarised)
    placement = Placement(scalarised)
    fill_by_policy(placement)
    for step in run_phases(DISPLACEMENT, inner):
        if isinstance(step, Candidate):
            yield step
    tightest = next(aggregate_models(scalarised, placement))
    _, relaxation = collect_bounds(bound_by_relaxation(session, *tightest, VALUE))
    for step in migrate(session, scalarised, tightest, relaxation, inner.incumbent):
        if isinstance(step, Candidate):
            yield step


def _asks_for_progress(search: Search) -> bool:
    return PROGRESS in search.problem.terms


def _is_open(search: Search) -> bool:
    """Whether `value` is not yet proven within the gap, or another term comes first."""
    return search.first != VALUE or not search.close_enough()


def _disruption_may_fall(search: Search) -> bool:
    """Whether `value` is proven within the gap and `disruption` comes next."""
    return search.problem.weighted_terms[:2] == (VALUE, DISRUPTION) and search.close_enough()


def _incumbent_may_gain(search: Search) -> bool:
    """Whether repacking or insertion may gain value.

    Where the value is proven within the gap, only if a reported plan is worth more and there are
    later terms: at that value these may be better.
    """
    if search.incumbent is None:
        return False
    value = search.incumbent.value
    if close_enough(search.problem, search.session, search.incumbent):
        return value < search.reported_value and len(search.problem.terms) > 1
    return True


def _needs_search(search: Search) -> bool:
    """Whether `value` or `entitled` comes first and is not yet proven, or another term does.

    Also where `progress` comes next and is not proven.
    """
    if search.first not in (VALUE, ENTITLED) or not search.close_enough():
        return True
    best, bounds = search.session.best, search.session.best_known.bounds
    if best is None or search.problem.weighted_terms[1:2] != (PROGRESS,):
        return False
    return not near(bounds.get(PROGRESS, inf), best[PROGRESS], search.session.gap)


def _moves_running_jobs(search: Search) -> bool:
    """Whether the search goes on from an incumbent that moves or stops running jobs."""
    incumbent = search.incumbent
    moves = incumbent is not None and (search.repacked or any(incumbent.stopped))
    return moves and _needs_search(search)


MIGRATION = (
    Phase("relaxation of classes", Search.relax_classes, Search.has_classes, needs_time=True),
    Phase("displacement by model", _displace_by_model, _is_open),
    Phase("repacking", _repack, _incumbent_may_gain, needs_time=True),
    Phase("gang insertion", _insert_gangs, _incumbent_may_gain, needs_time=True),
    Phase(
        "displacement at least cost", _displace_at_least_cost, _disruption_may_fall, needs_time=True
    ),
    Phase("victim selection", _select_victims, needs_time=True),
    Phase("progress", _scalarise_progress, _asks_for_progress, needs_time=True),
    Phase("bounds of classes", Search.bound_classes, Search.has_classes, needs_time=True),
    Phase("LNS", _improve_incumbent, _moves_running_jobs, needs_time=True),
    Phase(
        "residual evacuation",
        _evacuate,
        lambda s: not s.improved and _needs_search(s),
        needs_time=True,
    ),
    Phase(
        "domain repacking",
        _repack_domains,
        lambda s: s.first == FREED and s.evacuated is not None,
    ),
    Phase("residual counts", _search_residual, lambda s: s.evacuated is not None, needs_time=True),
)
"""Phases after the linear relaxation: first those that move or stop running jobs for value, then
those that decide the pending jobs around them. A plan found after the deadline is still yielded."""
