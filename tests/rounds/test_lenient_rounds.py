"""Rounds read leniently: invalid jobs wait, and all others are decided as without them."""

import json
from pathlib import Path
from typing import Any

import pytest

from placewright import Changes, Engine, instances, load_round, solve_round, verify
from placewright.cli.app import main
from placewright.cli.interrupts import ExitCode
from placewright.instances.checks.round import with_invalid_jobs
from placewright.instances.derived.ranges import expand
from placewright.instances.derived.reason_text import reason_text
from placewright.instances.documents.plan import Decision, DecisionKind, Detail, Plan, Reason
from placewright.instances.documents.round import Round
from placewright.instances.errors import InvalidInputError
from placewright.instances.io.digest import round_digest
from placewright.instances.io.files import parse_plan, parse_round
from placewright.instances.io.yaml_json import parse_yaml
from placewright.rounds import prove_bounds

LIBRARY = Path(instances.__file__).parent / "library"
BUNDLED = sorted(LIBRARY.glob("*.yaml"))
WAIT, KEEP = DecisionKind.WAIT, DecisionKind.KEEP
GROUP: dict[str, Any] = {"gpu": 1}


def job(name: str, group: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    return {"name": name, "options": [{"groups": [{**GROUP, **(group or {})}]}], **fields}


UNKNOWN = [
    job("bad-tenant", tenant="nobody"),
    job("bad-level", {"required": "galaxy"}),
    job("bad-preference", {"preferred": ["galaxy"]}),
    job("bad-model", {"gpu_models": ["B1"]}),
    job("bad-host", {"hosts": ["nowhere[0-3]"]}),
    job("bad-slices", {"count": 4, "slices": {"size": 2, "required": "galaxy"}}),
    job("bad-apart", {"apart": {"level": "galaxy"}}),
    job("bad-rule", anti_affinity={"label": "x", "level": "galaxy"}),
    {**job("bad-option"), "options": [{"required": "galaxy", "groups": [GROUP]}]},
    job("bad-everything", {"required": "galaxy", "hosts": ["no"]}, tenant="nobody"),
]
OF_POLICY: dict[str, list[dict[str, Any]]] = {
    "quickstart": [job("unread", deadline={"work_s": 5})],
    "muri": [job("few-stages", profile={"stages": [1]})],
    "chronus": [job("paces", deadline={"work_s": 5, "paces": [{}, {}]})],
    "mast-regions": [
        job("bad-data", reads=[{"dataset": "nothing", "gib": 1}]),
        job("bad-region", regions=["atlantis"]),
    ],
    "mast-replicas": [job("bad-data", reads=[{"dataset": "nothing", "gib": 1}])],
    "hived": [],
    "lyra-return": [],
}


def raw_of(name: str) -> dict[str, Any]:
    raw: dict[str, Any] = parse_yaml((LIBRARY / f"{name}.yaml").read_text())
    return raw


def spoilt(name: str) -> dict[str, Any]:
    """Return a bundled round with invalid jobs before, between and after its own."""
    raw = raw_of(name)
    bad = [*UNKNOWN, *OF_POLICY[name]]
    half = len(raw["jobs"]) // 2
    raw["jobs"] = [*bad[:3], *raw["jobs"][:half], *bad[3:6], *raw["jobs"][half:], *bad[6:]]
    return raw


def raw_host(raw: dict[str, Any]) -> str:
    return expand(raw["cluster"]["hosts"][0]["name"])[0]


def solved(round_: Round) -> Plan:
    return solve_round(round_, time_limit=20, deterministic=True, isolation="none")


def decided(plan: Plan) -> tuple[Any, ...]:
    """Return what a plan decides and proves of jobs that are not invalid."""
    assert plan.certificate is not None
    valid = [d for d in plan.decisions if d.reason is not Reason.INVALID]
    return valid, plan.sections, plan.certificate.terms, plan.certificate.status


@pytest.mark.parametrize("path", BUNDLED, ids=lambda path: path.stem)
def test_a_legal_round_is_read_as_strictly(path):
    strict, lenient = load_round(path), load_round(path, lenient=True)
    assert lenient == strict
    assert not lenient.invalid
    assert lenient.valid_part() is lenient


@pytest.mark.nightly(after=1)
@pytest.mark.parametrize("name", OF_POLICY)
def test_other_jobs_are_decided_as_in_the_round_without_the_invalid_ones(name, tmp_path, capsys):
    raw = spoilt(name)
    with pytest.raises(InvalidInputError):
        parse_round(raw)
    round_ = parse_round(raw, lenient=True)
    bad = [one["name"] for one in (*UNKNOWN, *OF_POLICY[name])]
    assert sorted(round_.invalid) == sorted(bad)
    assert [one.name for one in round_.jobs] == [one["name"] for one in raw["jobs"]]
    plan = solved(round_)
    assert plan.round == round_digest(round_)
    assert [d.job for d in plan.decisions] == [one.name for one in round_.jobs]
    assert decided(plan) == decided(solved(parse_round(raw_of(name))))
    for decision in plan.decisions:
        if decision.job in bad:
            assert (decision.decision, decision.reason) == (WAIT, Reason.INVALID)
            assert decision.detail == Detail(message=round_.invalid[decision.job])
    assert verify(round_, plan).ok
    assert verify(round_, parse_plan(json.loads(plan.model_dump_json()))).ok
    # The command line prints, verifies and draws such a plan, and without the option refuses it.
    round_file, plan_file = str(tmp_path / "r.json"), str(tmp_path / "p.json")
    Path(round_file).write_text(json.dumps(raw))
    Path(plan_file).write_text(plan.model_dump_json())
    for words in (["verify", round_file, plan_file], ["show", round_file, "--plan", plan_file]):
        assert main(words) == ExitCode.INVALID
        assert main([*words, "--lenient"]) == 0
    assert main(["show", round_file, "--lenient"]) == 0
    assert main(["validate", round_file, "--lenient"]) == 0
    capsys.readouterr()
    assert main(["solve", round_file, "--lenient", "--time-limit", "0"]) == 0
    told = capsys.readouterr()
    assert "job bad-tenant is invalid and waits: tenant: 'nobody': unknown tenant" in told.err


@pytest.mark.parametrize("name", ["quickstart", "mast-regions", "muri"])
def test_bounds_are_those_of_the_round_without_the_invalid_jobs(name):
    round_, without = parse_round(spoilt(name), lenient=True), parse_round(raw_of(name))
    plan, other = solved(round_), solved(without)
    bounds = prove_bounds(round_, plan, time_limit=10, isolation="none")
    expected = prove_bounds(without, other, time_limit=10, isolation="none")
    assert [(b.name, b.value) for b in bounds] == [(b.name, b.value) for b in expected]


def test_each_message_says_what_is_wrong_first():
    round_ = parse_round(spoilt("quickstart"), lenient=True)
    assert round_.invalid["bad-level"].startswith(
        "options[0].groups[0].required: 'galaxy': unknown level; expected "
    )
    assert round_.invalid["bad-everything"].startswith("tenant: 'nobody': unknown tenant")
    assert round_.invalid["bad-everything"].endswith(" (and 2 more)")
    assert round_.invalid["unread"].startswith("deadline: not used by policy 'gang'")


def test_what_is_not_the_matter_of_a_pending_job_alone_is_an_error():
    raw = raw_of("quickstart")
    bad = job("bad", tenant="nobody")
    running = {**bad, "running": {"tasks": [{"host": raw_host(raw), "gpus": [0]}]}}
    for change, path in (
        ({"jobs": [bad, *raw["jobs"], {**bad, "tenant": "research"}]}, "name"),
        ({"jobs": [bad, {**running, "name": "runs"}]}, 1),
        ({"jobs": [bad], "reservations": [{"host": "nowhere"}]}, "reservations"),
    ):
        with pytest.raises(InvalidInputError) as caught:
            parse_round({**raw, **change}, lenient=True)
        assert path in caught.value.path
        assert not caught.value.others
    with pytest.raises(InvalidInputError, match="expected at least 1"):
        parse_round({**raw, "jobs": [job("bad", {"count": 0})]}, lenient=True)


def test_errors_found_later_keep_the_places_of_the_whole_round():
    raw = raw_of("quickstart")
    jobs = [job("bad", tenant="nobody"), *raw["jobs"], job("big", {"count": 100_000, "gpu": 10**6})]
    jobs[-1]["weight"] = 10**6
    round_ = parse_round({**raw, "jobs": jobs}, lenient=True)
    assert list(round_.invalid) == ["bad", "big"]


def changed(plan: Plan, name: str, **update: Any) -> Plan:
    decisions = [
        one.model_copy(update=update) if one.job == name else one for one in plan.decisions
    ]
    return plan.model_copy(update={"decisions": tuple(decisions)})


def rules(round_: Round, plan: Plan) -> set[str]:
    return {violation.rule for violation in verify(round_, plan).violations}


def test_plans_that_lie_about_invalid_jobs_are_refused():
    raw = spoilt("quickstart")
    round_, own = parse_round(raw, lenient=True), raw_of("quickstart")["jobs"]
    plan = solved(round_)
    assert rules(round_, changed(plan, "bad-host", reason=None, detail=None)) == set()
    assert rules(round_, changed(plan, "bad-host", reason=Reason.CAPACITY)) == {"invalid_reason"}
    lie = Detail(message="tenant: 'x'")
    assert rules(round_, changed(plan, "bad-host", detail=lie)) == {"invalid_reason"}
    started = changed(plan, "bad-host", decision=DecisionKind.START, option=0, reason=None)
    assert "invalid_job" in rules(round_, started)
    pending = next(one["name"] for one in own if "running" not in one)
    waits = {"decision": WAIT, "option": None, "tasks": (), "reason": Reason.INVALID}
    assert "invalid_reason" in rules(round_, changed(plan, pending, **waits))
    without = tuple(d for d in plan.decisions if d.job != "bad-host")
    assert rules(round_, plan.model_copy(update={"decisions": without})) == set()
    twice = (*plan.decisions, Decision(job="bad-host", decision=WAIT))
    assert rules(round_, plan.model_copy(update={"decisions": twice})) == {"one_decision"}
    # A round that says that a legal job is invalid is not believed.
    marked = round_.with_invalid({**round_.invalid, pending: "so it is"})
    assert with_invalid_jobs(marked).invalid == round_.invalid
    assert verify(marked, plan).ok


def test_an_engine_keeps_invalid_jobs_waiting_until_a_change_makes_them_valid():
    raw = raw_of("quickstart")
    raw["jobs"] = [job("new", tenant="physics"), *raw["jobs"], job("bad", {"hosts": ["nowhere"]})]
    with Engine(parse_round(raw, lenient=True), time_limit=5, isolation="none") as engine:
        for round_ in range(2):
            plan = engine.round(Changes(now=40_000) if round_ else None)
            assert {"new", "bad"} == {d.job for d in plan.decisions if d.reason is Reason.INVALID}
            assert verify(engine.round_solved, plan).ok
        with pytest.raises(InvalidInputError, match="unknown tenant"):
            engine.round(Changes(added=(engine.state.jobs[0].model_copy(update={"name": "n"}),)))
        plan = engine.round(Changes(quotas={"physics": {"gpu": 8}}))
        assert [d.job for d in plan.decisions if d.reason is Reason.INVALID] == ["bad"]
        assert verify(engine.round_solved, plan).ok
        corrected = engine.state.jobs[0].model_copy(update={"name": "bad", "running": None})
        plan = engine.round(Changes(updated=(corrected,)))
        assert not engine.state.invalid
        assert all(d.reason is not Reason.INVALID for d in plan.decisions)
        assert verify(engine.round_solved, plan).ok


def test_an_engine_answers_arrivals_beside_invalid_jobs():
    raw = spoilt("chronus")
    asking = next(one for one in parse_round(raw_of("chronus")).jobs if one.name == "audit")
    due = asking.model_copy(update={"name": "arrival"})
    with Engine(parse_round(raw, lenient=True), time_limit=5, isolation="none") as engine:
        engine.round()
        answer = engine.admit(due)
        assert answer.job == "arrival"
        assert len(engine.state.invalid) == len(UNKNOWN) + 1


def test_a_hostile_message_is_escaped():
    text = reason_text(Reason.INVALID, Detail(message="\x1b[31m\nx"))
    assert text.isprintable()
