"""Two plans side by side: proven differences beside all plans of tiny rounds, and free domains."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

from examples import examples
from fuzz.play import read
from fuzz.policies import deadline, gang, geo, interleaving, replicas
from fuzz.policy import TooManyPlansError
from fuzz.small_units import in_small_units
from placewright.explain.comparison import compare, term_differences
from placewright.explain.whatif import whatif
from placewright.instances.documents.edits import Edits
from placewright.instances.documents.plan import DecisionKind, TermResult
from placewright.instances.documents.round import Round
from placewright.instances.errors import InvalidInputError
from placewright.instances.io.files import parse_edits, parse_round
from placewright.instances.policies import sense_of, term_of
from placewright.instances.verify import verify
from placewright.rounds import solve_round

Raw = dict[str, Any]
HEAD = {"apiVersion": "placewright/v1alpha2"}


def best_of(round_: Round) -> dict[str, int]:
    """The term values of the best of all plans of a round, by the fuzzer's rule book."""
    raw = in_small_units(round_.model_dump(mode="json", exclude_none=True))
    valid = [p.terms for p in gang.POLICY.plans(raw, Random(0)) if not p.broken]

    def signed(values: Any) -> list[int]:
        return [v if sense_of(t) == "max" else -v for t, v in values.items()]

    return dict(max(valid, key=signed))


def value_in(values: dict[str, int], name: str) -> int:
    """The value of a term, or the sum of its priority classes."""
    return (
        values[name]
        if name in values
        else sum(value for term, value in values.items() if term_of(term) == name)
    )


def drawn_edit(round_: Round, rng: Random) -> dict[str, Any]:
    """Draw an edit that may matter in a tiny round."""
    names = [one.name for one in round_.cluster.hosts]
    jobs = [job.name for job in round_.jobs]
    job = rng.choice(jobs)
    edits: list[dict[str, Any]] = [
        {"fail": [rng.choice(names)]},
        {"add": {"like": rng.choice([n for n in names if "[" not in n] or ["none"])}},
        {"remove": [job]},
        {"job": {job: {"priority": rng.randrange(3)}}},
        {"job": {job: {"weight": rng.randrange(4)}}},
        {"job": {job: {"count": rng.choice([1, 1, 2])}}},
        {"job": {job: {"gpu": rng.choice([1, 2])}}},
        {"job": {job: {"without": ["required", "joint_required"]}}},
    ]
    for tenant in round_.tenants:
        edits += [{"quota": {tenant.name: {"to": {"gpu": rng.randrange(1, 5)}}}}] * 2
    return rng.choice(edits)


def tiny_rounds(seeds: range) -> Iterator[tuple[int, Round]]:
    for seed in seeds:
        try:
            round_ = read(gang.POLICY.draw(Random(seed)))
        except TooManyPlansError:
            continue
        by_rule = round_.policy.backfill is not None or any(t.cells for t in round_.tenants)
        if not by_rule and round_.jobs and not round_.invalid:
            yield seed, round_


def test_proven_differences_agree_with_all_plans_of_tiny_rounds():
    found = dict.fromkeys(("proven", "same", "undecided"), 0)
    asked = 0
    for seed, round_ in tiny_rounds(range(examples(day=12, nightly=120))):
        rng = Random(f"edit {seed}")
        try:
            edits = parse_edits({"edits": [drawn_edit(round_, rng)]})
            # Every third pair are greedy plans, which may be improved.
            limit = 0.0 if seed % 3 == 0 else None
            answer = whatif(round_, edits, gap=0.0, time_limit=limit, isolation="none")
        except InvalidInputError:
            continue
        if not answer.round_after.jobs:
            continue
        try:
            before, after = best_of(round_), best_of(answer.round_after)
        except TooManyPlansError:
            continue
        assert verify(answer.round_after, answer.after).ok
        asked += 1
        for one in answer.comparison.terms:
            found[one.verdict] += 1
            if one.before is None or one.after is None:
                continue
            true = value_in(after, one.after.name) - value_in(before, one.before.name)
            assert one.at_least <= true <= one.at_most, (seed, one)
            if one.verdict == "proven":
                assert true * one.difference > 0, (seed, one)
            elif one.verdict == "same":
                assert true == 0, (seed, one)
    assert asked >= examples(day=3, nightly=40), asked
    assert min(found.values()) >= examples(day=0, nightly=5), found


def test_an_edit_that_changes_nothing_gives_an_empty_comparison():
    """The second search is begun with the first plan, and ends with it."""
    count, rounds = 0, examples(day=2, nightly=20)
    for policy in (gang, interleaving, deadline, geo, replicas):
        seed = 0
        wanted = count + rounds
        while count < wanted:
            seed += 1
            try:
                round_ = read(policy.POLICY.draw(Random(seed)))
            except TooManyPlansError:
                continue
            options: Any = {"deterministic": True, "time_limit": 5.0, "isolation": "none"}
            answer = whatif(round_, Edits(), **options)
            assert answer.comparison.is_empty
            again = solve_round(round_, start=answer.before, **options)
            compared = compare(round_, answer.before, round_, again)
            assert compared.is_empty, (policy.POLICY.name, seed, compared)
            assert again.decisions == answer.before.decisions
            count += 1
    assert count == 5 * rounds


def small(*jobs: Raw, **more: Any) -> Round:
    cluster = {
        "levels": ["rack"],
        "domains": [{"name": "a", "level": "rack"}, {"name": "b", "level": "rack"}],
        "hosts": [
            {"name": "a[0-1]", "parent": "a", "gpus": 2, "gpu_model": "H100"},
            {"name": "b[0-1]", "parent": "b", "gpus": 2, "gpu_model": "H100"},
        ],
    }
    return parse_round({**HEAD, "kind": "Round", "cluster": cluster, "jobs": jobs, **more})


def job(name: str, gpu: int = 2, **fields: Any) -> Raw:
    return {"name": name, "options": [{"groups": [{"gpu": gpu}]}], **fields}


def runs(name: str, host: str, **fields: Any) -> Raw:
    return job(name, running={"tasks": [{"host": host, "gpus": [0, 1]}]}, **fields)


def answer_to(round_: Round, *edits: Raw) -> Any:
    return whatif(round_, parse_edits({"edits": list(edits)}), isolation="none").comparison


def test_free_domains_are_whole_healthy_and_not_reserved():
    found = answer_to(small(runs("r", "a0")), {"end": ["r"]}, {"fail": ["b1"]})
    assert [(one.level, one.before, one.after) for one in found.free] == [
        ("rack", 1, 1),
        ("host", 3, 3),
    ]
    found = answer_to(small(), {"add": {"like": "b"}})
    assert [(one.level, one.before, one.after, one.added) for one in found.free] == [
        ("rack", 2, 3, 1),
        ("host", 4, 6, 2),
    ]
    assert not found.is_empty
    reserved = small(reservations=[{"host": "a0"}])
    assert [one.after for one in answer_to(reserved, {"release": ["a0"]}).free] == [2, 4]


def test_jobs_start_stop_move_come_and_go():
    full = small(*(runs(f"r{n}", host) for n, host in enumerate(("a0", "a1", "b0", "b1"))))
    found = answer_to(full, {"submit": [job("new", priority=1, weight=2)]})
    changes = {one.job.name: one.change for one in found.jobs}
    assert changes["new"] == "new"
    assert sorted(changes.values()) == ["new", "stops"]
    stopped = found.of("stops")[0]
    assert (stopped.before.decision, stopped.after.decision) == (
        DecisionKind.KEEP,
        DecisionKind.PREEMPT,
    )
    assert stopped.after.displaced_by == ("new",)
    found = answer_to(small(runs("r", "a0"), job("w")), {"end": ["r"]}, {"remove": ["w"]})
    assert [one.change for one in found.jobs] == ["gone", "gone"]
    found = answer_to(small(runs("r", "a0")), {"drain": ["a0"]})
    assert [(one.job.name, one.change) for one in found.jobs] == [("r", "moves")]
    assert [one.verdict for one in found.terms if one.before is None] == ["undecided"]


def test_who_runs_on_a_host_that_fails_restarts_or_stops():
    pinned = runs("p", "a0")
    pinned["running"]["pinned"] = True
    found = answer_to(small(pinned), {"fail": ["a0"]})
    assert [(one.job.name, one.change) for one in found.jobs] == [("p", "restarts")]
    full = small(*(runs(f"r{n}", host) for n, host in enumerate(("a0", "a1", "b0", "b1"))))
    found = answer_to(full, {"fail": ["a0"]})
    assert [(one.job.name, one.change) for one in found.jobs] == [("r0", "stops")]
    assert found.jobs[0].after.decision is DecisionKind.WAIT


def test_levels_of_value_are_matched_by_their_priorities():
    round_ = small(job("x", priority=1), job("y"))
    found = answer_to(round_, {"job": {"x": {"priority": 2}}})
    values = {one.term.precedences[0].priority: one for one in found.terms if one.term.precedences}
    assert values[0].difference == 0
    assert values[0].verdict == "same"
    assert values[1].after is None
    assert values[2].before is None
    total = next(one for one in found.terms if one.term.name == "value")
    assert (total.difference, total.verdict) == (0, "same")


def test_a_plan_without_a_certificate_proves_nothing():
    round_ = small(job("x"), job("y"))
    plan = solve_round(round_, isolation="none")
    bare = plan.model_copy(update={"certificate": None})
    found = compare(round_, bare, round_, plan)
    assert found.is_empty
    assert {one.verdict for one in found.terms} == {"undecided"}


def test_values_that_claims_call_optimal_are_the_same_and_no_difference_within_them_is_proven():
    """Bounds of 10^7 and more that solvers claim are off by a few units."""
    one = TermResult(
        name="disruption", sense="min", value=10**7, bound=10**7 - 5.0, claimed=10**7 - 5.0,
        proof="claimed", status="optimal",
    )  # fmt: skip

    def verdict(value: int) -> str:
        other = one.model_copy(update={"value": value, "bound": value - 5.0})
        return next(term_differences([one], [other])).verdict

    assert verdict(10**7) == "same"
    assert verdict(10**7 - 3) == "undecided"
    assert verdict(10**7 - 6) == "proven"
    unknown = one.model_copy(update={"status": "feasible", "bound": None})
    assert next(term_differences([one], [unknown])).verdict == "undecided"
