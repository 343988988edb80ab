"""Profiles and the section `sharing`: what is read, what is refused and how it is reported."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from error_messages import without_lines
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples
from placewright.cli.app import main
from placewright.instances.derived.arrays import build_cluster, build_state
from placewright.instances.derived.running_groups import running_groups
from placewright.instances.derived.speed import speed
from placewright.instances.documents.job import Job
from placewright.instances.documents.policy import Policy
from placewright.instances.documents.profile import Profile
from placewright.instances.documents.round import Round
from placewright.instances.documents.sharing import Sharing
from placewright.instances.errors import InvalidInputError
from placewright.instances.io.digest import round_digest
from placewright.instances.io.files import load_round, parse_round, write
from placewright.instances.presets.presets import drain, return_hosts

Raw = dict[str, Any]
NAN, INF = float("nan"), float("inf")
MATRIX: Raw = {
    "cores": [1, 3, 6],
    "memory": ["20000Mi", "64Gi"],
    "speeds": [[300_000, 400_000], [900_000, 1_000_000], [900_000, 1_500_000]],
}


def running(*gpus: int, host: str = "h0") -> Raw:
    return {"tasks": [{"host": host, "gpus": list(gpus)}]}


ROUND: Raw = {
    "apiVersion": "placewright/v1alpha2",
    "kind": "Round",
    "cluster": {
        "hosts": [
            {
                "name": "h[0-1]",
                "gpus": 4,
                "gpu_model": "V100",
                "gpu_memory": "32Gi",
                "cpu": 24,
                "memory": "250Gi",
                "resources": {"nic": 2},
            }
        ]
    },
    "jobs": [
        {
            "name": "a",
            "options": [{"groups": [{"gpu": 2, "cpu": 6, "memory": "128Gi"}]}],
            "profile": {"stages": [1, 2, 3, 4], "slowdown": 1500, "sensitivity": MATRIX},
        },
        {
            "name": "b",
            "options": [{"groups": [{"gpu": 2, "cpu": 2}]}],
            "profile": {"stages": [4, 3, 2, 1], "iteration": 8, "load": [1, 2], "memory": ["1Gi"]},
        },
        {"name": "half", "options": [{"groups": [{"gpu": 0.5}]}]},
        {"name": "cpu", "options": [{"groups": [{"gpu": 0, "cpu": 1}]}]},
    ],
    "tenants": [{"name": "t"}],
    "sharing": {"conflicts": [["a", "b"]], "contention": [1_310_345, 1_477_833, 1_349_754]},
    "policy": {"formulation": "interleaving"},
}


def changed(path: str, value: object, raw: Raw = ROUND) -> Raw:
    raw = copy.deepcopy(raw)
    *parts, last = [int(part) if part.isdigit() else part for part in path.split(".")]
    place: Any = raw
    for part in parts:
        place = place[part]
    if isinstance(place, list) and last == len(place):
        place.append(value)
    else:
        place[last] = value
    return raw


PROFILE = "jobs.0.profile"
GRID = f"{PROFILE}.sensitivity"
REFUSED: list[tuple[str, Any, str]] = [
    (PROFILE, 3, "jobs[0].profile: 3: expected a mapping"),
    (PROFILE, {}, "jobs[0].profile.stages: missing; expected a value"),
    (f"{PROFILE}.stages", 4, "jobs[0].profile.stages: 4: expected a list"),
    (f"{PROFILE}.stages", "1234", "jobs[0].profile.stages: '1234': expected a list"),
    (f"{PROFILE}.stages", [], "jobs[0].profile.stages: []: expected at least 1 in the list"),
    (f"{PROFILE}.stages", [1, -1, 1, 1], "jobs[0].profile.stages[1]: -1: expected at least 0"),
    (
        f"{PROFILE}.stages",
        [0, 0, 0, 0],
        "jobs[0].profile.stages: [0, 0, 0, 0]: expected some stage above 0",
    ),
    (
        f"{PROFILE}.stages",
        [1, 2, 3],
        "jobs[0].profile.stages: 3 stages; expected 4: io, cpu, gpu, network",
    ),
    (
        f"{PROFILE}.stages",
        [1, 2, 3, 4, 5],
        "jobs[0].profile.stages: 5 stages; expected 4: io, cpu, gpu, network",
    ),
    (f"{PROFILE}.stages", [1] * 10_000, "jobs[0].profile.stages: [1, 1"),
    (f"{PROFILE}.stages", [1, None, 3, 4], "jobs[0].profile.stages[1]: None: expected an integer"),
    (f"{PROFILE}.stages", [1, NAN, 3, 4], "jobs[0].profile.stages[1]: nan: expected an integer"),
    (f"{PROFILE}.stages", [1, INF, 3, 4], "jobs[0].profile.stages[1]: inf: expected an integer"),
    (f"{PROFILE}.stages", [1, 2.5, 3, 4], "jobs[0].profile.stages[1]: 2.5: expected an integer"),
    (f"{PROFILE}.stages", [1, "2", 3, 4], "jobs[0].profile.stages[1]: '2': expected an integer"),
    (f"{PROFILE}.stages", [1, True, 3, 4], "jobs[0].profile.stages[1]: True: expected an integer"),
    (
        f"{PROFILE}.stages",
        [1, 10**9 + 1, 3, 4],
        "jobs[0].profile.stages[1]: 1000000001: expected at most 1000000000",
    ),
    (f"{PROFILE}.iteration", 0, "jobs[0].profile.iteration: 0: expected at least 1"),
    (f"{PROFILE}.iteration", 10**11, "jobs[0].profile.iteration: 100000000000: expected at most"),
    (
        f"{PROFILE}.iteration",
        101,
        "jobs[0].profile.iteration: 101: expected at most ten times the sum of the stages, 100",
    ),
    (f"{PROFILE}.slowdown", 999, "jobs[0].profile.slowdown: 999: expected at least 1000"),
    (f"{PROFILE}.slowdown", 1.5, "jobs[0].profile.slowdown: 1.5: expected an integer"),
    (f"{PROFILE}.load", [0, 1001], "jobs[0].profile.load[1]: 1001: expected at most 1000"),
    (f"{PROFILE}.memory", ["4"], "jobs[0].profile.memory[0]: '4': expected a whole"),
    (f"{PROFILE}.memory", [-1], "jobs[0].profile.memory[0]: -1: expected a whole"),
    (f"{PROFILE}.stage", [1], "jobs[0].profile.stage: [1]: unknown field; expected one of iter"),
    (f"{GRID}.cores", [], "jobs[0].profile.sensitivity.cores: []: expected at least 1 in"),
    (
        f"{GRID}.cores",
        [1, 1, 2],
        "jobs[0].profile.sensitivity.cores[1]: 1: expected more than 1, as entries ascend",
    ),
    (
        f"{GRID}.cores",
        [1, 2],
        "jobs[0].profile.sensitivity.speeds: 3 rows; expected 2, one for each entry of cores",
    ),
    (
        f"{GRID}.speeds.1",
        [1],
        "jobs[0].profile.sensitivity.speeds[1]: 1 speeds; expected 2, one for each entry of mem",
    ),
    (f"{GRID}.speeds.1.1", -1, "jobs[0].profile.sensitivity.speeds[1][1]: -1: expected at least"),
    (f"{GRID}.speeds.1.1", NAN, "jobs[0].profile.sensitivity.speeds[1][1]: nan: expected an int"),
    (f"{GRID}.speeds.1.1", 10**9, "jobs[0].profile.sensitivity.speeds[1][1]: 1000000000: expect"),
    (
        GRID,
        {"cores": [*range(8)], "memory": [f"{i}Mi" for i in range(8)], "speeds": [[1] * 8] * 8},
        "jobs[0].profile.sensitivity.speeds: 8 * 8 points; expected at most 63",
    ),
    (
        f"{GRID}.memory.1",
        "976562500Gi",
        "jobs[0].profile.sensitivity.memory[1]: '976562500Gi': is 1953125000Gi of memory for a ta",
    ),
    ("jobs.3.profile", {"stages": [1] * 4}, "jobs[3].profile: given for a job without GPUs"),
    ("sharing", None, "sharing: None: expected a mapping"),
    ("sharing.resources", [], "sharing.resources: []: expected at least 1 in the list"),
    ("sharing.resources", ["a"] * 4, "sharing.resources: ['a', 'a', 'a', 'a']: expected each re"),
    ("sharing.resources", [f"r{i}" for i in range(17)], "sharing.resources: ['r0', 'r1'"),
    ("sharing.resources", ["io", "gpu"], "jobs[0].profile.stages: 4 stages; expected 2: io, gpu"),
    (
        "sharing.spanning",
        True,
        "sharing.spanning: True: given with 4 resources; expected false, or 3 resources",
    ),
    ("sharing.spanning", 1, "sharing.spanning: 1: expected true or false"),
    ("sharing.contention", [10**6] * 2, "sharing.contention[2]: missing; expected a value"),
    ("sharing.contention", [10**6] * 4, "sharing.contention: [1000000, 1000000, 1000000, 10000"),
    ("sharing.contention.0", 999_999, "sharing.contention[0]: 999999: expected at least 1000000"),
    ("sharing.contention.0", 1.33, "sharing.contention[0]: 1.33: expected an integer"),
    ("sharing.most", 0, "sharing.most: 0: expected at least 1"),
    ("sharing.most", 5, "sharing.most: 5: expected at most 4"),
    ("sharing.as_needed", "yes", "sharing.as_needed: 'yes': expected true or false"),
    ("sharing.correlation", 1001, "sharing.correlation: 1001: expected at most 1000"),
    ("sharing.correlation", -1, "sharing.correlation: -1: expected at least 0"),
    ("sharing.percentile", 0, "sharing.percentile: 0: expected at least 1"),
    ("sharing.percentile", 101, "sharing.percentile: 101: expected at most 100"),
    ("sharing.conflicts", [["a"]], "sharing.conflicts[0][1]: missing; expected a value"),
    ("sharing.conflicts", [["a", 3]], "sharing.conflicts[0][1]: 3: expected text"),
    ("sharing.conflicts", ["ab"], "sharing.conflicts[0]: 'ab': expected a list"),
    (
        "sharing.conflicts",
        [["a", "z"]],
        "sharing.conflicts[0][1]: 'z': unknown job; expected a or b or cpu or half",
    ),
    (
        "sharing.conflicts",
        [["b", "a"], ["a", "a"]],
        "sharing.conflicts[1][1]: 'a': conflicts with itself; expected two jobs",
    ),
    (
        "sharing.conflicts",
        [["half", "a"]],
        "sharing.conflicts[0][0]: 'half': is a job that asks for parts of GPUs; expected jobs of",
    ),
    ("sharing.color", 1, "sharing.color: 1: unknown field; expected one of as_needed, conflicts"),
    ("policy.formulation", "gang", "sharing: {'conflicts': [['a', 'b']], 'contention': [1310345"),
    (
        "policy.terms",
        ["value"],
        "policy.terms[0]: 'value': is not for policy 'interleaving'; expected throughput, weighted",
    ),
    (
        "policy.terms",
        ["spread"],
        "policy.terms[0]: 'spread': is not for policy 'interleaving'; expected first throughput,",
    ),
    (
        "policy.terms",
        ["throughput", "share"],
        "policy.terms[1]: 'share': is not for policy 'interleaving'; expected throughput, weighted",
    ),
    ("policy.terms", ["throughput"] * 2, "policy.terms: ['throughput', 'throughput']: expected ea"),
    ("policy.vacate", ["h0"], "policy.vacate: not used by policy 'interleaving'; expected the ro"),
    ("policy.freeing", {"gpu_worth_s": 1}, "policy.freeing: not used by policy 'interleaving'"),
    (
        "policy.mix",
        [{"gpu": 0.001}],
        "policy.mix: not used by policy 'interleaving'; expected the ro",
    ),
    (
        "tenants.0.guarantee",
        {"gpu": 0.001},
        "tenants[0].guarantee: not used by policy 'interleaving'",
    ),
    (
        "tenants.0.cells",
        [{"level": "host", "count": 1}],
        "tenants[0].cells: not used by policy 'interleaving'",
    ),
]


@pytest.mark.parametrize(("path", "value", "message"), REFUSED, ids=lambda x: str(x)[:40])
def test_a_bad_profile_or_section_is_one_clear_line(tmp_path, path, value, message):
    file = tmp_path / "r.json"
    file.write_text(json.dumps(changed(path, value)))
    with pytest.raises(InvalidInputError) as caught:
        load_round(file)
    error_text = str(caught.value.errors[0])
    assert without_lines(error_text).startswith(f"{file}: {message}")
    assert "expected" in error_text
    assert len(error_text.splitlines()) == 1
    assert len(error_text) < 500


def test_the_round_that_they_change_is_right():
    assert parse_round(ROUND).policy.terms[0] == "weighted_throughput"


def test_a_bad_profile_exits_with_3_and_a_line_for_each_fault(tmp_path, capsys):
    file = tmp_path / "r.json"
    for value in ([-1, 1, 1, 1], [0] * 4, [1] * 3, [1] * 10_000, [NAN] * 4):
        file.write_text(json.dumps(changed(f"{PROFILE}.stages", value)))
        assert main(["validate", str(file)]) == 3
        error_text = capsys.readouterr()
        assert not error_text.out
        assert 1 <= len(error_text.err.splitlines()) <= 4
        assert 'jobs[0] "a".profile.stages' in error_text.err.splitlines()[0]


MANY = examples(day=300_000, nightly=3_000_000)


@pytest.mark.nightly(after=4)
@pytest.mark.parametrize(
    "value",
    [[-1] * MANY, [[1]] * (MANY // 3), [1] * MANY, "x" * 10**7],
    ids=["negative", "lists", "too many", "text"],
)
@pytest.mark.parametrize("field", ["stages", "load", "memory"])
def test_a_profile_of_millions_of_entries_is_refused_by_its_first_fault(field, value):
    with pytest.raises(InvalidInputError) as caught:
        parse_round(changed(f"{PROFILE}.{field}", value))
    assert str(caught.value).startswith(f"jobs[0].profile.{field}")
    assert len(str(caught.value.errors[0])) < 300
    assert len(str(caught.value).splitlines()) <= 21


def test_profiles_and_terms_of_sharing_are_not_for_the_policy_gang():
    raw = changed("policy", {})
    with pytest.raises(InvalidInputError, match="section not used by policy 'gang'"):
        parse_round(raw)
    del raw["sharing"]
    with pytest.raises(InvalidInputError) as caught:
        parse_round(raw)
    error_text = "jobs[0].profile: not used by policy 'gang'; expected none"
    assert str(caught.value.errors[0]) == error_text
    for term in ("throughput", "weighted_throughput", "efficiency"):
        with pytest.raises(InvalidInputError, match="is not for policy 'gang'"):
            parse_round(changed("policy", {"terms": [term]}, {**raw, "jobs": []}))


def test_presets_and_returned_hosts_are_not_for_the_policy_interleaving():
    raw = changed("jobs.0.profile", None)
    del raw["sharing"]["conflicts"]
    round_ = parse_round(raw)
    for made in (lambda: drain(round_, ["h0"]), lambda: return_hosts(round_, ["h0"], 1)):
        with pytest.raises(InvalidInputError, match="has no presets; expected gang"):
            made()


def test_a_round_of_gangs_keeps_its_digest_and_may_say_nothing_of_sharing():
    cluster = ROUND["cluster"]
    plain = Round.model_validate({"cluster": cluster})
    assert Round.model_validate({"cluster": cluster, "sharing": Sharing()}) == plain
    assert Round.model_validate(plain.model_dump()) == plain
    assert Round.model_validate(plain.model_dump(mode="json")) == plain
    assert "sharing" not in plain.model_dump(exclude_defaults=True)
    with pytest.raises(InvalidInputError, match="section not used"):
        parse_round({"cluster": cluster, "sharing": {**Sharing().model_dump(), "most": 3}})


def test_the_policy_interleaving_has_terms_of_its_own():
    default = ("weighted_throughput", "disruption", "spread", "opened")
    assert Policy(formulation="interleaving").terms == default
    assert Policy().terms == ("value", "disruption", "spread", "opened")
    assert Policy(formulation="interleaving", terms=("disruption",)).terms == ("disruption",)


# Options written out of a sensitivity.


def test_options_are_the_first_and_each_point_that_is_no_slower_and_unmatched():
    job = parse_round(ROUND).jobs[0]
    error_text = [(one.name, one.groups[0].cpu, one.groups[0].memory) for one in job.options]
    assert error_text == [
        ("default", 6000, 128 * 1024),
        ("6000m-65536Mi-per-gpu", 12000, 128 * 1024),
    ]
    assert [speed(job, option) for option in range(2)] == [1_000_000, 1_500_000]


@pytest.mark.parametrize(
    ("cpu", "memory", "expected"),
    [
        (6000, 128 * 1024, 1_000_000),
        (5999, 128 * 1024, 400_000),
        (6000, 128 * 1024 - 1, 900_000),
        (10**9, 10**9, 1_500_000),
        (1999, 10**9, 0),
        (10**9, 39_999, 0),
    ],
)
def test_speed_is_that_of_the_largest_point_not_above(cpu, memory, expected):
    groups = [{"gpu": 2, "cpu": f"{cpu}m", "memory": f"{memory}Mi"}, {"gpu": 0}]
    options = [{"groups": groups}, {"groups": groups}]
    profile = {"stages": [1], "sensitivity": MATRIX}
    job = Job.model_validate({"name": "a", "options": options, "profile": profile})
    assert len(job.options) == 2
    assert speed(job, 1) == expected


def test_without_a_sensitivity_every_option_has_speed_one():
    job = parse_round(ROUND).jobs[1]
    assert speed(job, 0) == 1_000_000
    assert len(job.options) == 1


def test_the_slowest_of_several_groups_decides():
    groups = [{"gpu": 1, "cpu": 6, "memory": "64Gi"}, {"gpu": 1, "cpu": 3}]
    groups[1]["memory"] = "20000Mi"
    job = Job.model_validate(
        {
            "name": "a",
            "options": [{"groups": groups}] * 2,
            "profile": {"stages": [1], "sensitivity": MATRIX},
        }
    )
    assert speed(job, 0) == 900_000


def test_a_running_job_may_run_an_option_that_is_written_out(tmp_path):
    raw = changed("jobs.0.running", {**running(0, 1), "option": 1})
    assert parse_round(raw).jobs[0].running.option == 1
    with pytest.raises(InvalidInputError, match="expected the index of an option, at most 1"):
        parse_round(changed("jobs.0.running", {**running(0, 1), "option": 2}))


@settings(max_examples=examples(day=25, nightly=100))
@given(data=st.data())
def test_options_are_written_out_once_and_never_slower(data):
    rows, columns = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 5))
    axis = st.integers(0, 8)
    cores = sorted(data.draw(st.sets(axis, min_size=rows, max_size=rows)))
    memory = sorted(data.draw(st.sets(axis, min_size=columns, max_size=columns)))
    entry = st.integers(0, 4)
    speeds = [[data.draw(entry) for _ in memory] for _ in cores]
    gpus, cpu, mib = (data.draw(st.integers(low, high)) for low, high in ((1, 3), (0, 24), (0, 24)))
    group = {"gpu": gpus, "cpu": f"{cpu}m", "memory": f"{mib}Mi"}
    matrix = {
        "cores": [f"{c}m" for c in cores],
        "memory": [f"{m}Mi" for m in memory],
        "speeds": speeds,
    }
    raw = {
        "name": "a",
        "options": [{"groups": [group]}],
        "profile": {"stages": [1], "sensitivity": matrix},
    }
    job = Job.model_validate(raw)
    for again in (job.model_dump(), job.model_dump(mode="json", exclude_defaults=True)):
        assert Job.model_validate(again) == job
    assert Job.model_validate(job) is job
    fast = [speed(job, option) for option in range(len(job.options))]
    assert min(fast) == fast[0]
    asks = [(one.groups[0].cpu, one.groups[0].memory) for one in job.options]
    assert asks[0] == (cpu, mib)
    assert len(set(asks)) == len(asks)
    # Every point as fast as the share is an option, or one that asks no more is as fast.
    for c, row in zip(cores, speeds, strict=True):
        for m, here in zip(memory, row, strict=True):
            if here >= max(fast[0], 1):
                assert any(
                    less <= c * gpus and fewer <= m * gpus and rate >= here
                    for (less, fewer), rate in zip(asks, fast, strict=True)
                )
    # And no point that is an option is matched by another.
    for i, (cpu, mib) in enumerate(asks[1:], start=1):
        for k, (less, fewer) in enumerate(asks[1:], start=1):
            assert i == k or less > cpu or fewer > mib or fast[k] < fast[i]


# Groups that run.


def together(*extra: tuple[str, Any]) -> Raw:
    """Two jobs on the GPUs 0 and 1 of h0, and what is changed."""
    raw = changed("jobs.0.running", running(0, 1))
    del raw["jobs"][0]["profile"]["sensitivity"], raw["sharing"]
    raw["jobs"][1]["running"] = running(1, 0)
    for path, value in extra:
        raw = changed(path, value, raw)
    return raw


GROUP_A, GROUP_B = "jobs.0.options.0.groups.0", "jobs.1.options.0.groups.0"


def test_jobs_of_a_group_run_on_the_same_gpus_and_hold_them_once():
    round_ = parse_round(together())
    assert running_groups(round_) == [(0, 1)]
    cluster = build_cluster(round_.cluster)
    state = build_state(round_, cluster)
    assert state.gpu_free.tolist() == [0, 0, 1000, 1000] + [1000] * 4
    cpu, memory = cluster.resources.index("cpu"), cluster.resources.index("memory")
    assert state.free[0, cpu] == 24000 - max(6000, 2000)
    assert state.free[0, memory] == (250 - 128) * 1024


@pytest.mark.parametrize(
    "legal",
    [
        ("sharing", {"conflicts": [["a", "b"]]}),
        ("jobs.1.profile.slowdown", 1000),
        ("jobs.1.profile.stages", [1, 2, 3, 4]),
        ("jobs.1.name", "another"),
        (f"{GROUP_B}.name", "workers"),
        (f"{GROUP_B}.resources", {"nic": 2}),
        (f"{GROUP_B}.cpu", 24),
        (f"{GROUP_B}.gpu_memory", "32Gi"),
        ("jobs.1.options.0.value", 5),
        ("jobs.1.priority", 5),
        ("jobs.1.tenant", "t"),
        ("jobs.1.running.pinned", True),
    ],
    ids=lambda one: one[0],
)
def test_what_runs_as_a_group_may_differ_in_this_and_gain_nothing(legal):
    raw = together(legal)
    assert running_groups(parse_round(raw)) == [(0, 1)]


HELD = "running tasks hold 2 GPUs on this GPU of host h0; expected at most 1"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("jobs.1.profile", None), HELD),
        (("jobs.1.running", running(1, 2)), HELD),
        (("jobs.1.anti_affinity", {"label": "x", "level": "host"}), HELD),
        ((f"{GROUP_B}.hosts", ["h0"]), HELD),
        ((f"{GROUP_B}.required", "host"), HELD),
        (("jobs.1.options.0.required", "host"), HELD),
        (
            ("jobs.1.options.1", {"groups": [{"gpu": 2}]}),
            None,
        ),
        (("sharing", {"most": 1}), "expected at most 1 jobs in a group"),
        (
            (f"{GROUP_B}.memory", "123Gi"),
            "running tasks hold 251Gi of memory there; expected at most 250Gi of memory",
        ),
        (
            (f"{GROUP_B}.cpu", 24.001),
            "running tasks hold 24.001 cores there; expected at most 24 cores",
        ),
        (
            (f"{GROUP_B}.gpu_memory", "33Gi"),
            None,
        ),
    ],
    ids=lambda one: str(one)[:30],
)
def test_others_do_not_run_on_the_same_gpus(change, message):
    raw = together(change)
    if change[0] == "jobs.1.options.1":
        raw["jobs"][1]["running"]["option"] = 1
        message = HELD
    if change[0].endswith("gpu_memory"):
        raw["jobs"][1]["profile"].pop("memory")
        message = "running tasks hold 33Gi of this GPU of host h0, which has 32Gi"
    with pytest.raises(InvalidInputError) as caught:
        parse_round(raw)
    assert message in str(caught.value)
    assert str(caught.value).startswith("jobs[1].running")


def test_a_group_that_runs_takes_the_percentile_of_a_series():
    raw = together((f"{GROUP_A}.gpu_memory", "16Gi"), (f"{GROUP_B}.gpu_memory", "32Gi"))
    raw["jobs"][1]["profile"]["memory"] = ["16Gi", "17Gi"]
    with pytest.raises(InvalidInputError, match="hold 33Gi"):
        parse_round(raw)
    raw["sharing"] = {"percentile": 50}
    assert len(running_groups(parse_round(raw))) == 1


def test_five_jobs_are_too_many_for_a_group_that_runs():
    raw = together()
    jobs = [copy.deepcopy(raw["jobs"][1]) for _ in range(5)]
    for i, job in enumerate(jobs):
        job["name"] = f"b{i}"
    with pytest.raises(InvalidInputError) as caught:
        parse_round({**raw, "jobs": jobs})
    error_text = "jobs[4].running: runs on the GPUs of 4 others; expected at most 4 jobs in a group"
    assert str(caught.value) == error_text
    assert running_groups(parse_round({**raw, "jobs": jobs[:4]})) == [(0, 1, 2, 3)]
    two = {**changed("sharing", {"resources": ["cpu", "gpu"]}, raw), "jobs": jobs[:3]}
    for job in two["jobs"]:
        job["profile"]["stages"] = [1, 1]
    with pytest.raises(InvalidInputError, match="at most 2 jobs in a group"):
        parse_round(two)


def test_the_cpu_of_a_group_counts_once_beside_others_on_the_host():
    beside = {
        "name": "c",
        "options": [{"groups": [{"gpu": 2, "cpu": 18}]}],
        "running": running(2, 3),
    }
    raw = together(("jobs.4", beside))
    parse_round(raw)
    with pytest.raises(InvalidInputError, match=r"hold 24\.001 cores"):
        parse_round(changed("jobs.4.options.0.groups.0.cpu", 18.001, raw))


def test_under_another_policy_nothing_runs_together():
    raw = together(("policy", {}), ("jobs.0.profile", None), ("jobs.1.profile", None))
    with pytest.raises(InvalidInputError, match="hold 2 GPUs"):
        parse_round(raw)


# What is written reads the same again.

profiles = st.fixed_dictionaries(
    {"stages": st.lists(st.integers(0, 10**9), min_size=3, max_size=3).filter(any)},
    optional={
        "slowdown": st.integers(1000, 10**6),
        "load": st.lists(st.integers(0, 1000), max_size=4),
        "memory": st.lists(st.integers(0, 10**5).map("{}Mi".format), max_size=4),
        "sensitivity": st.fixed_dictionaries(
            {
                "cores": st.just([0, 1]),
                "memory": st.just([0, "10Mi"]),
                "speeds": st.lists(
                    st.lists(st.integers(0, 10**8), min_size=2, max_size=2), min_size=2, max_size=2
                ),
            }
        ),
    },
)
sections = st.fixed_dictionaries(
    {"resources": st.just(["storage+cpu", "gpu", "network"])},
    optional={
        "spanning": st.booleans(),
        "contention": st.lists(st.integers(10**6, 10**7), min_size=3, max_size=3),
        "most": st.integers(1, 4),
        "as_needed": st.booleans(),
        "correlation": st.none() | st.integers(0, 1000),
        "percentile": st.integers(1, 100),
        "conflicts": st.lists(st.just(["j0", "j1"]), max_size=2),
    },
)


@settings(max_examples=examples(day=15, nightly=60))
@given(jobs=st.lists(profiles, min_size=2, max_size=4), section=sections)
def test_rounds_read_as_they_were_written(tmp_path_factory, jobs, section):
    options = [{"groups": [{"gpu": 1, "cpu": 0.5}]}]
    raw = {
        **ROUND,
        "jobs": [
            {"name": f"j{i}", "options": options, "profile": profile}
            for i, profile in enumerate(jobs)
        ],
        "sharing": section,
    }
    round_ = parse_round(raw)
    folder = tmp_path_factory.mktemp("rounds")
    for name in ("r.json", "r.yaml"):
        write(round_, folder / name)
        again = load_round(folder / name)
        assert again == round_
        assert round_digest(again) == round_digest(round_)
    assert parse_round(json.loads(json.dumps(raw))) == round_


def test_the_time_alone_is_the_sum_of_the_stages_unless_it_is_given():
    assert Profile(stages=(1, 2, 0)).alone == 3
    assert Profile(stages=(1, 2, 0), iteration=30).alone == 30


def test_slots_are_resources_but_four_where_a_stage_spans_two():
    assert Sharing().slots == 4
    assert Sharing(resources=("a", "b")).slots == 2
    assert Sharing(resources=("a", "b", "c"), spanning=True).slots == 4
