"""Deadlines and the section `leases`: what is read and what is refused, and how leases add up."""

from __future__ import annotations

import copy
import json
from itertools import pairwise
from typing import Any

import pytest
from error_messages import without_lines
from hypothesis import given
from hypothesis import strategies as st

from placewright.cli.app import main
from placewright.instances.checks.deadlines import MAX_ROWS, unions
from placewright.instances.derived.leases import (
    completion_time,
    leases_needed,
    min_hosts,
    relative_speed,
    unavailable_hosts,
    work_per_lease,
)
from placewright.instances.documents.deadline import Pace
from placewright.instances.documents.leases import Leases, Outage
from placewright.instances.documents.option import Option
from placewright.instances.documents.policy import Policy, headline
from placewright.instances.documents.round import Round
from placewright.instances.errors import InvalidInputError
from placewright.instances.io.digest import round_digest
from placewright.instances.io.files import load_round, parse_round
from placewright.instances.presets.presets import drain

Raw = dict[str, Any]
NAN, INF = float("nan"), float("inf")

ROUND: Raw = {
    "apiVersion": "placewright/v1alpha2",
    "kind": "Round",
    "now": 10_000,
    "cluster": {"hosts": [{"name": "h[0-3]", "gpus": 8, "gpu_model": "V100"}]},
    "tenants": [{"name": "t"}],
    "jobs": [
        {
            "name": "a",
            "options": [{"groups": [{"gpu": 8}]}, {"groups": [{"gpu": 8, "count": 2}]}],
            "deadline": {
                "work_s": 7200,
                "due": [{"at": 5000, "value": 9}, {"at": 90_000, "value": 4}],
                "ready": 11_000,
                "promise": {"at": 80_000, "value": 5},
                "paces": [{}, {"speed": 1900, "overhead_s": 60, "spanning": [[2, 950], [4, 800]]}],
            },
        },
        {
            "name": "b",
            "options": [{"groups": [{"gpu": 8}]}],
            "deadline": {"work_s": 100},
            "running": {"tasks": [{"host": "h3", "gpus": [0, 1, 2, 3, 4, 5, 6, 7]}]},
        },
        {"name": "c", "options": [{"groups": [{"gpu": 0.5}]}]},
    ],
    "leases": {
        "length_s": 1200,
        "horizon": 500,
        "outages": [{"host": "h[0-1]", "start": 20_000, "end": 30_000}, {"host": "h2"}],
        "headroom": 100,
    },
    "policy": {"formulation": "deadline"},
}


def changed(path: str, value: object, raw: Raw = ROUND) -> Raw:
    raw = copy.deepcopy(raw)
    *parts, last = [int(part) if part.isdigit() else part for part in path.split(".")]
    place: Any = raw
    for part in parts:
        place = place[part]
    place[last] = value
    return raw


D = "jobs.0.deadline"
A = "jobs[0].deadline"
REFUSED: list[tuple[str, Any, str]] = [
    (D, 7200, f"{A}: 7200: expected a mapping"),
    (D, {}, f"{A}.work_s: missing; expected a value"),
    (f"{D}.work", 1, f"{A}.work: 1: unknown field; expected one of due, paces, promise, ready"),
    (f"{D}.work_s", 0, f"{A}.work_s: 0: expected at least 1"),
    (f"{D}.work_s", -7200, f"{A}.work_s: -7200: expected at least 1"),
    (f"{D}.work_s", NAN, f"{A}.work_s: nan: expected an integer"),
    (f"{D}.work_s", INF, f"{A}.work_s: inf: expected an integer"),
    (f"{D}.work_s", 1.5, f"{A}.work_s: 1.5: expected an integer"),
    (f"{D}.work_s", "2h", f"{A}.work_s: '2h': expected an integer"),
    (f"{D}.work_s", True, f"{A}.work_s: True: expected an integer"),
    (f"{D}.work_s", 10**13, f"{A}.work_s: 10000000000000: expected at most 1000000000000"),
    (f"{D}.due", 90_000, f"{A}.due: 90000: expected a list"),
    (f"{D}.due.0.at", -1, f"{A}.due[0].at: -1: expected at least 0"),
    (f"{D}.due.0.at", NAN, f"{A}.due[0].at: nan: expected an integer"),
    (f"{D}.due.0.value", 0, f"{A}.due[0].value: 0: expected at least 1"),
    (f"{D}.due.0.value", 0.5, f"{A}.due[0].value: 0.5: expected an integer"),
    (f"{D}.due.0", {"at": 5}, f"{A}.due[0].value: missing; expected a value"),
    (
        f"{D}.due.1.at",
        5000,
        f"{A}.due[1].at: 5000: expected more than 5000, as due times ascend",
    ),
    (f"{D}.due.1.at", 4000, f"{A}.due[1].at: 4000: expected more than 5000, as due times"),
    (f"{D}.due.1.value", 9, f"{A}.due[1].value: 9: expected less than 9, as values fall"),
    (f"{D}.due.1.value", 10, f"{A}.due[1].value: 10: expected less than 9, as values fall"),
    (
        f"{D}.due",
        [{"at": i, "value": 100 - i} for i in range(65)],
        f"{A}.due: [{{'at': 0",
    ),
    (f"{D}.ready", -1, f"{A}.ready: -1: expected at least 0"),
    (f"{D}.ready", "now", f"{A}.ready: 'now': expected an integer"),
    ("jobs.1.deadline.ready", 10_001, "jobs[1].deadline.ready: 10001: is later than now, and th"),
    (f"{D}.promise", 80_000, f"{A}.promise: 80000: expected a mapping"),
    (f"{D}.promise.value", -5, f"{A}.promise.value: -5: expected at least 1"),
    (f"{D}.paces", [{}], f"{A}.paces: 1 paces; expected 2, one for each option, or none"),
    (f"{D}.paces", [{}] * 3, f"{A}.paces: 3 paces; expected 2, one for each option, or none"),
    (f"{D}.paces.1.speed", 0, f"{A}.paces[1].speed: 0: expected at least 1"),
    (f"{D}.paces.1.speed", 10**7, f"{A}.paces[1].speed: 10000000: expected at most 1000000"),
    (f"{D}.paces.1.speed", 1.9, f"{A}.paces[1].speed: 1.9: expected an integer"),
    (f"{D}.paces.1.overhead_s", -1, f"{A}.paces[1].overhead_s: -1: expected at least 0"),
    (f"{D}.paces.1.spanning", [[1, 900]], f"{A}.paces[1].spanning[0][0]: 1: expected at least 2"),
    (f"{D}.paces.1.spanning", [[2, 0]], f"{A}.paces[1].spanning[0][1]: 0: expected at least 1"),
    (f"{D}.paces.1.spanning", [[2, 2001]], f"{A}.paces[1].spanning[0][1]: 2001: expected at most"),
    (f"{D}.paces.1.spanning", [[2]], f"{A}.paces[1].spanning[0][1]: missing; expected a value"),
    (f"{D}.paces.1.spanning", {"2": 950}, f"{A}.paces[1].spanning: {{'2': 950}}: expected a list"),
    (
        f"{D}.paces.1.spanning",
        [[4, 800], [4, 700]],
        f"{A}.paces[1].spanning[1][0]: 4: expected more than 4, as hosts ascend",
    ),
    ("leases", None, "leases: None: expected a mapping"),
    ("leases.length_s", 0, "leases.length_s: 0: expected at least 1"),
    ("leases.length_s", -1200, "leases.length_s: -1200: expected at least 1"),
    ("leases.length_s", 20.0, "leases.length_s: 20.0: expected an integer"),
    ("leases.length_s", NAN, "leases.length_s: nan: expected an integer"),
    ("leases.length_s", "20m", "leases.length_s: '20m': expected an integer"),
    ("leases.horizon", 0, "leases.horizon: 0: expected at least 1"),
    ("leases.horizon", 10**9, "leases.horizon: 1000000000: expected at most 10000"),
    ("leases.headroom", 1001, "leases.headroom: 1001: expected at most 1000"),
    ("leases.headroom", 0.1, "leases.headroom: 0.1: expected an integer"),
    ("leases.outages", {"host": "h0"}, "leases.outages: {'host': 'h0'}: expected a list"),
    (
        "leases.outages.1.host",
        "h4",
        "leases.outages[1].host: 'h4': unknown host h4; expected hosts of the cluster",
    ),
    ("leases.outages.1.host", "h[2-4]", "leases.outages[1].host: 'h[2-4]': unknown host h4;"),
    ("leases.outages.1.host", "h[3-2]", "leases.outages[1].host: 'h[3-2]': range runs backwards"),
    (
        "leases.outages.1.host",
        "h[0-999999999]",
        "leases.outages[1].host: 'h[0-999999999]': stands for 1,000,000,000 hosts; expected",
    ),
    (
        "leases.outages.0.end",
        20_000,
        "leases.outages[0].end: 20000: expected more than start, 20000",
    ),
    ("leases.outages.0.start", -1, "leases.outages[0].start: -1: expected at least 0"),
    ("leases.lenght_s", 1, "leases.lenght_s: 1: unknown field; expected one of headroom, horizon"),
    (
        "policy.terms",
        ["value"],
        "policy.terms[0]: 'value': is not for policy 'deadline'; expected broken",
    ),
    (
        "policy.terms",
        ["early"],
        "policy.terms[0]: 'early': is not for policy 'deadline'; expected first broken",
    ),
    (
        "policy.terms",
        ["admitted", "broken"],
        "policy.terms[0]: 'admitted': is not for policy 'deadline'; expected first broken",
    ),
    (
        "policy.terms",
        ["broken", "value"],
        "policy.terms[1]: 'value': is not for policy 'deadline'; expected broken, admitted, best",
    ),
    ("policy.vacate", ["h0"], "policy.vacate: not used by policy 'deadline'; expected the round"),
    ("tenants.0.guarantee", {"gpu": 0.001}, "tenants[0].guarantee: not used by policy 'deadline'"),
    ("sharing", {}, "sharing: {}: section not used by policy 'deadline'; expected the round"),
    ("policy.formulation", "interleaving", "leases: {'length_s': 1200, 'horizon': 500, 'outages'"),
    ("jobs.1.profile", {"stages": [1] * 4}, "jobs[1].profile: not used by policy 'deadline'"),
    (
        "jobs.1.running",
        {"tasks": [{"host": "h2", "gpus": list(range(8))}], "pinned": True},
        "jobs[1].running.pinned: True: runs on host h2, which is away in the current lease; exp",
    ),
]


@pytest.mark.parametrize(("path", "value", "message"), REFUSED, ids=lambda x: str(x)[:40])
def test_a_bad_deadline_or_section_is_one_clear_line(tmp_path, path, value, message):
    file = tmp_path / "r.json"
    file.write_text(json.dumps(changed(path, value)))
    with pytest.raises(InvalidInputError) as caught:
        load_round(file)
    error_text = str(caught.value)
    assert without_lines(error_text).startswith(f"{file}: {message}")
    assert "expected" in error_text
    assert len(error_text.splitlines()) == 1
    assert len(error_text) < 500


@pytest.mark.parametrize(
    ("path", "value"),
    [("leases.length_s", 0), (f"{D}.work_s", -1), (f"{D}.due.1.at", 1), ("leases.horizon", 10**9)],
)
def test_a_bad_deadline_exits_with_3_and_says_one_line(tmp_path, capsys, path, value):
    file = tmp_path / "r.json"
    file.write_text(json.dumps(changed(path, value)))
    for verb in ("validate", "solve"):
        assert main([verb, str(file)]) == 3
        error_text = capsys.readouterr()
        assert not error_text.out
        assert len(error_text.err.splitlines()) == 1
        assert path.rpartition(".")[2] in error_text.err


def test_the_round_that_they_change_is_right_with_due_times_in_the_past():
    made = parse_round(ROUND)
    assert made.jobs[0].deadline.due[0].at < made.now
    assert unavailable_hosts(made.leases, made.now) == {"h2"}


def test_deadlines_and_leases_are_of_no_other_policy():
    for formulation in ("gang", "interleaving"):
        raw = changed("policy", {"formulation": formulation})
        with pytest.raises(InvalidInputError, match=f"section not used by policy '{formulation}'"):
            parse_round(raw)
        del raw["leases"]
        with pytest.raises(InvalidInputError) as caught:
            parse_round(raw)
        error_text = f".deadline: not used by policy '{formulation}'; expected none"
        told = without_lines(str(caught.value))
        assert told.splitlines() == [f"jobs[{index}]{error_text}" for index in range(2)]
        for term in ("broken", "admitted", "best_effort", "early"):
            policy = {"formulation": formulation, "terms": [term]}
            with pytest.raises(InvalidInputError, match="is not for policy"):
                parse_round(changed("policy", policy, {**raw, "jobs": []}))


def test_leases_and_jobs_that_are_too_many_together_are_refused():
    jobs = [{**ROUND["jobs"][1], "name": f"j{i}", "running": None} for i in range(5001)]
    raw = changed("leases.horizon", 10_000, {**ROUND, "jobs": jobs[:5000]})
    assert len(parse_round(raw).jobs) == 5000
    with pytest.raises(InvalidInputError) as caught:
        parse_round({**raw, "jobs": jobs})
    assert str(caught.value).startswith("leases.horizon: 10000: times 5,001 jobs with deadlines;")


def test_sets_of_gpu_models_that_overlap_in_too_many_ways_are_refused():
    models = [f"m{i}" for i in range(12)]
    hosts = [{"name": f"x{i}", "gpus": 1, "gpu_model": model} for i, model in enumerate(models)]
    pairs = [[one, other] for one, other in pairwise(models)]
    jobs = [
        {
            "name": f"j{i}",
            "options": [{"groups": [{"gpu": 1, "gpu_models": pair}]}],
            "deadline": {"work_s": 1},
        }
        for i, pair in enumerate(pairs)
    ]
    raw = {**ROUND, "cluster": {"hosts": hosts}, "jobs": jobs[:10], "leases": {}}
    assert len(unions({frozenset(pair) for pair in pairs[:10]})) == 55 <= MAX_ROWS
    parse_round(raw)
    with pytest.raises(InvalidInputError) as caught:
        parse_round({**raw, "jobs": jobs})
    error_text = (
        "jobs[10].options[0].groups[0].gpu_models: overlaps with those of other jobs in more"
    )
    assert str(caught.value).startswith(error_text)


def test_presets_are_not_for_the_policy_deadline():
    with pytest.raises(InvalidInputError, match="has no presets; expected gang"):
        drain(parse_round(ROUND), ["h0"])


def test_a_round_of_gangs_may_say_nothing_of_leases():
    cluster = ROUND["cluster"]
    plain = Round.model_validate({"cluster": cluster})
    assert Round.model_validate({"cluster": cluster, "leases": Leases()}) == plain
    assert Round.model_validate(plain.model_dump()) == plain
    assert Round.model_validate(plain.model_dump(mode="json")) == plain
    assert "leases" not in plain.model_dump(exclude_defaults=True)
    with pytest.raises(InvalidInputError, match="section not used"):
        parse_round({"cluster": cluster, "leases": {**Leases().model_dump(), "horizon": 3}})


def test_a_round_with_deadlines_reads_back_and_keeps_its_digest():
    made = parse_round(ROUND)
    again = parse_round(made.model_dump(mode="json"))
    assert again == made
    assert round_digest(again) == round_digest(made)
    assert parse_round(made.model_dump(mode="json", exclude_defaults=True)) == made


def test_the_policy_deadline_has_terms_of_its_own_and_two_of_them_make_its_gap():
    terms = ("broken", "admitted", "disruption", "best_effort", "early", "spread", "opened")
    assert Policy(formulation="deadline").terms == terms
    assert headline(terms) == ("broken", "admitted")
    assert headline(("broken", "early")) == ("broken",)
    assert headline(Policy().terms) == ("value",)


# The arithmetic of leases.


@pytest.mark.parametrize(
    ("start", "end", "leases"),
    [
        (None, None, (0, 10)),
        (None, 1000, (0, 0)),
        (None, 1001, (0, 1)),
        (0, 1000, (0, 0)),
        (1099, 1101, (0, 2)),
        (1100, 1200, (1, 2)),
        (1999, None, (9, 10)),
        (2000, 3000, (10, 10)),
        (500, 5000, (0, 10)),
    ],
)
def test_an_outage_takes_the_leases_that_it_overlaps(start, end, leases):
    """Ten leases of 100 seconds from 1000 on."""
    section = Leases(length_s=100, horizon=10)
    outage = Outage(host="h0", start=start, end=end)
    first, last = section.overlapped(outage, 1000)
    assert list(range(first, last)) == list(range(*leases))
    gone = unavailable_hosts(Leases(length_s=100, horizon=10, outages=(outage,)), 1000)
    assert gone == ({"h0"} if leases[0] == 0 < leases[1] else frozenset())


@pytest.mark.parametrize(
    ("ready", "lease"), [(None, 0), (0, 0), (1000, 0), (1001, 1), (1100, 1), (1101, 2)]
)
def test_a_job_runs_from_the_first_lease_that_begins_when_it_is_ready(ready, lease):
    assert Leases(length_s=100).first_usable(ready, 1000) == lease


def test_on_more_hosts_the_next_entry_counts_and_beyond_the_last_the_last():
    pace = Pace(spanning=((2, 950), (4, 800)))
    assert [relative_speed(pace, hosts) for hosts in range(7)] == [
        1000,
        1000,
        950,
        800,
        800,
        800,
        800,
    ]
    assert relative_speed(Pace(), 5) == 1000


def test_a_lease_gains_what_is_left_of_it_after_the_overhead():
    pace = Pace(speed=1900, overhead_s=60, spanning=((2, 950),))
    assert work_per_lease(pace, 1200, 1) == 1900 * 1140
    assert work_per_lease(pace, 1200, 2) == 1900 * 950 * 1140 // 1000
    assert work_per_lease(pace, 60, 1) == work_per_lease(pace, 59, 1) == 0
    assert leases_needed(7_200_000, pace, 1200, 1) == 4
    assert leases_needed(3 * 1900 * 1140, pace, 1200, 1) == 3
    assert leases_needed(7_200_000, pace, 60, 1) is None


def test_a_job_is_done_within_its_last_lease():
    pace = Pace(speed=1900, overhead_s=60)
    left = 7_200_000 - 3 * 1900 * 1140
    assert (
        completion_time(10_000 + 3 * 1200, left, pace, 1) == 13_600 + 60 + 370
    )  # 702000 / 1900 = 369.5


@given(
    speed=st.integers(1, 10**6),
    overhead=st.integers(0, 50),
    part=st.integers(1, 2000),
    length=st.integers(1, 100),
    work=st.integers(1, 10**6),
)
def test_as_many_leases_as_needed_do_the_work_and_one_less_does_not(
    speed, overhead, part, length, work
):
    pace = Pace(speed=speed, overhead_s=overhead, spanning=((2, part),))
    each, count = work_per_lease(pace, length, 2), leases_needed(1000 * work, pace, length, 2)
    if count is None:
        assert each == 0
        return
    assert (count - 1) * each < 1000 * work <= count * each
    left = 1000 * work - (count - 1) * each
    done = completion_time(0, left, pace, 2)
    assert overhead < done <= length
    assert (done - overhead - 1) * speed * part < 1000 * left <= (done - overhead) * speed * part


@pytest.mark.parametrize(
    ("groups", "hosts"),
    [
        ([{"gpu": 8, "count": 2}], 2),
        ([{"gpu": 1, "count": 9}], 2),
        ([{"gpu": 1, "count": 9, "gpu_models": ["A100"]}], 3),
        ([{"gpu": 1, "count": 9, "gpu_models": ["A100", "V100"]}], 2),
        ([{"gpu": 4, "gpu_models": ["A100"]}, {"gpu": 4, "gpu_models": ["V100"]}], 1),
        ([{"gpu": 0.5, "count": 100}], 1),
        ([{"gpu": 0}], 1),
    ],
)
def test_the_least_hosts_are_those_that_whole_gpus_fill(groups, hosts):
    option = Option.model_validate({"groups": groups})
    assert min_hosts(option, {"V100": 8, "A100": 4}) == hosts
    assert min_hosts(option, {}) == 1
