"""Edits: what each verb makes of a round, what it refuses, and what it says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from placewright.instances.documents.edits import Edit, Edits, JobEdit
from placewright.instances.documents.round import Round
from placewright.instances.edits import sentences
from placewright.instances.edits.apply import apply_edits
from placewright.instances.edits.sentences import sentence_of
from placewright.instances.errors import InvalidInputError
from placewright.instances.io.files import load_edits, parse_edits, parse_round, write
from placewright.instances.verify import verify
from placewright.rounds import solve_round

HEAD = {"apiVersion": "placewright/v1alpha2"}


def edits_of(*edits: dict[str, Any]) -> Edits:
    return parse_edits({**HEAD, "kind": "Edits", "edits": list(edits)})


def edited(round_: Round, *edits: dict[str, Any]) -> Round:
    return apply_edits(round_, edits_of(*edits))


def refusal(round_: Round, *edits: dict[str, Any]) -> str:
    with pytest.raises(InvalidInputError) as caught:
        edited(round_, *edits)
    return str(caught.value)


@pytest.fixture
def base() -> Round:
    return parse_round(
        {
            **HEAD,
            "kind": "Round",
            "now": 1000,
            "cluster": {
                "levels": ["rack"],
                "domains": [{"name": "a", "level": "rack"}, {"name": "b", "level": "rack"}],
                "hosts": [
                    {"name": "a[0-3]", "parent": "a", "gpus": 4, "gpu_model": "H100"},
                    {"name": "b[0-1]", "parent": "b", "gpus": 4, "gpu_model": "A100"},
                ],
            },
            "tenants": [{"name": "t", "quota": {"gpu": 16, "memory": "64Gi"}}, {"name": "u"}],
            "caps": {"c": {"gpus": 8, "jobs": 3, "gpus_by_model": {"H100": 4}}, "d": {}},
            "reservations": [{"host": "a[2-3]"}, {"host": "b0", "gpus": [0]}],
            "policy": {"limits": {"disruption": {"preempted_jobs": 2}}},
            "jobs": [
                {
                    "name": "runs",
                    "tenant": "t",
                    "expected_runtime_s": 600,
                    "options": [{"groups": [{"gpu": 4}]}],
                    "running": {"started": 900, "tasks": [{"host": "a0", "gpus": [0, 1, 2, 3]}]},
                },
                {
                    "name": "waits",
                    "tenant": "u",
                    "held": True,
                    "options": [
                        {"groups": [{"count": 2, "gpu": 4, "gpu_models": ["H100"],
                                     "required": "rack"}]},
                        {"required": "rack", "groups": [{"gpu": 2}, {"gpu": 1, "cpu": 3}]},
                    ],
                },
            ],
        }
    )  # fmt: skip


def test_hosts_are_drained_failed_and_restored(base):
    drained = edited(base, {"drain": ["a[0-1]"]})
    assert drained.policy.vacate == ("a[0-1]",)
    assert drained.policy.terms == ("remaining", *base.policy.terms)
    assert edited(drained, {"drain": ["a1"]}) == drained
    assert edited(drained, {"restore": ["a0"]}).policy.vacate == ("a1",)
    assert edited(drained, {"restore": ["a[0-3]"]}) == base
    failed = edited(base, {"fail": ["a1", "b0"]})
    away = [one.name for one in failed.cluster.hosts if not one.healthy]
    assert away == ["a1", "b0"]
    healthy = [one.name for one in failed.cluster.hosts if one.healthy]
    assert healthy == ["a0", "a[2-3]", "b1"]
    assert edited(failed, {"fail": ["b0"]}) == failed
    assert failed.jobs == base.jobs
    assert edited(base, {"fail": ["a0"]}).jobs[0].running is None


def test_reservations_are_released_host_by_host(base):
    left = edited(base, {"release": ["a3"]}).reservations
    assert [(one.host, one.gpus) for one in left] == [("a2", None), ("b0", (0,))]
    assert not edited(base, {"release": ["a[0-3]", "b0"]}).reservations
    assert "edits[0].release: ('a0',): not reserved; expected" in refusal(base, {"release": ["a0"]})


def test_racks_and_hosts_are_added_like_others(base):
    made = edited(base, {"add": {"like": "a", "count": 2}}, {"add": {"like": "new1-a"}})
    assert [one.name for one in made.cluster.domains] == ["a", "b", "new1-a", "new2-a",
                                                          "new1-new1-a"]  # fmt: skip
    names = [(one.name, one.parent) for one in made.cluster.hosts[2:]]
    assert names == [("new1-a[0-3]", "new1-a"), ("new2-a[0-3]", "new2-a"),
                     ("new1-new1-a[0-3]", "new1-new1-a")]  # fmt: skip
    failed = edited(base, {"fail": ["a1"]}, {"add": {"like": "a1"}}, {"add": {"like": "a1"}})
    new = failed.cluster.hosts[-2:]
    assert [(one.name, one.parent, one.healthy) for one in new] == [
        ("new1-a1", "a", True),
        ("new2-a1", "a", True),
    ]
    given = edited(
        base,
        {
            "add": {
                "domains": [{"name": "c", "level": "rack"}],
                "hosts": [{"name": "c[0-1]", "parent": "c", "gpus": 8, "gpu_model": "H100"}],
            }
        },
        {"fail": ["c1"]},
    )
    assert given.cluster.hosts[-1].name == "c1"
    assert "did you mean a?" in refusal(base, {"add": {"like": "A"}})


def test_quotas_are_set_raised_lowered_and_lifted(base):
    def quota(change: dict[str, Any]) -> dict[str, int]:
        return dict(edited(base, {"quota": {"t": change}}).tenants[0].quota)

    assert quota({"to": {"gpu": 8, "cpu": 4}})["gpu"] == 8000
    assert quota({"more": {"gpu": "500m"}})["gpu"] == 16_500
    assert quota({"less": {"memory": "1Gi"}, "more": {"gpu": 1}}) == {
        "gpu": 17_000,
        "memory": 63 * 1024,
    }
    assert quota({"without": ["gpu"]}) == {"memory": 64 * 1024}
    assert "edits[0].quota.t.more.cpu: no quota of it so far" in refusal(
        base, {"quota": {"t": {"more": {"cpu": 1}}}}
    )
    assert "expected at most the quota, 16 GPUs" in refusal(
        base, {"quota": {"t": {"less": {"gpu": 17}}}}
    )
    assert "given twice" in refusal(base, {"quota": {"t": {"to": {"gpu": 1}, "more": {"gpu": 1}}}})


def test_caps_are_set_raised_lowered_and_lifted(base):
    def cap(change: dict[str, Any]) -> dict[str, int]:
        made = edited(base, {"cap": {"c": change}}).caps["c"]
        return {measure.key: most for measure, most in made.limits.items()}

    assert cap({"to": {"gpus": 4, "resources": {"cpu": 1}}}) == {
        "gpus": 4000,
        "jobs": 3,
        "gpus@H100": 4000,
        "cpu": 1000,
    }
    assert cap({"more": {"gpus_by_model": {"H100": 2}}, "less": {"jobs": 1}}) == {
        "gpus": 8000,
        "jobs": 2,
        "gpus@H100": 6000,
    }
    assert cap({"without": ["gpus", "gpus@H100"]}) == {"jobs": 3}
    assert edited(base, {"cap": {"c": {}}}) == base
    assert "edits[0].cap.c.more.resources.cpu: no limit of it so far" in refusal(
        base, {"cap": {"c": {"more": {"resources": {"cpu": 1}}}}}
    )
    assert "edits[0].cap.c.less.jobs: '4 jobs': expected at most the cap, 3 jobs" in refusal(
        base, {"cap": {"c": {"less": {"jobs": 4}}}}
    )
    assert "edits[0].cap.c.without[0]: 'cpu': unknown limit; expected gpus or" in refusal(
        base, {"cap": {"c": {"without": ["cpu"]}}}
    )
    assert "given twice" in refusal(base, {"cap": {"c": {"to": {"jobs": 1}, "more": {"jobs": 1}}}})
    assert "'e': unknown cap; expected c or d" in refusal(base, {"cap": {"e": {}}})


def test_limits_of_the_budget_are_set_and_lifted(base):
    made = edited(base, {"limits": {"to": {"migrated_jobs": 0, "preempted_gpus": 8}}})
    assert made.policy.limits.disruption.model_dump(exclude_none=True) == {
        "preempted_jobs": 2,
        "preempted_gpus": 8,
        "migrated_jobs": 0,
    }
    assert edited(base, {"limits": {"without": ["preempted_jobs"]}}).policy.limits is None
    assert "no such limit" in refusal(base, {"limits": {"without": ["lost_gpu_s"]}})


def test_a_job_asks_otherwise(base):
    def job(change: dict[str, Any]) -> Any:
        return edited(base, {"job": {"waits": change}}).jobs[1]

    made = job({"priority": 3, "weight": 2, "held": False, "not_before": 2000})
    assert (made.priority, made.weight, made.held, made.not_before) == (3, 2, False, 2000)
    assert [g.gpu for o in job({"gpu": 1}).options for g in o.groups] == [1000] * 3
    assert [g.gpu for o in job({"gpu": 3, "option": 1}).options for g in o.groups] == [
        4000,
        3000,
        3000,
    ]
    assert [g.cpu for o in job({"cpu": 1, "group": 1}).options for g in o.groups] == [0, 0, 1000]
    made = job({"without": ["required", "joint_required", "gpu_models"]})
    assert [o.required for o in made.options] == [None, None]
    assert made.options[0].groups[0].required is None
    assert made.options[0].groups[0].gpu_models is None
    assert job({"add_gpu_models": ["A100"]}).options[0].groups[0].gpu_models == ("H100", "A100")
    only = job({"only": 1})
    assert len(only.options) == 1
    assert len(only.options[0].groups) == 2
    spread = job({"apart": {"level": "rack"}, "option": 0, "without": ["required"]})
    assert spread.options[0].groups[0].apart.most == 1
    wide = job({"num_hosts": {"max": 2}})
    assert [one.hosts.max for one in wide.options] == [2, 2]
    one = job({"num_hosts": {"min": 1}, "option": 1, "group": 0})
    assert one.options[1].groups[0].num_hosts.min == 1
    assert one.options[1].hosts is None
    two = {"job": {"waits": {"num_hosts": {"min": 1, "max": 1}}}}
    more = edited(base, two, {"job": {"waits": {"num_hosts": {"max": 2}}}}).jobs[1]
    assert (more.options[0].hosts.min, more.options[0].hosts.max) == (1, 2)
    assert "1 hosts at most, and 2 at least" in refusal(
        base, two, {"job": {"waits": {"num_hosts": {"min": 2}}}}
    )
    both = (
        {"job": {"waits": {"num_hosts": {"max": 2}}}},
        {"job": {"waits": {"without": ["num_hosts"]}}},
    )
    assert edited(base, *both).jobs[1].options[0].hosts is None


def test_jobs_come_and_go(base):
    new = {"name": "new", "options": [{"groups": [{"gpu": 4}]}]}
    made = edited(base, {"end": ["runs"]}, {"remove": ["waits"]}, {"submit": [new]})
    assert [one.name for one in made.jobs] == ["new"]
    assert "edits[0].end[0]: 'waits': does not run" in refusal(base, {"end": ["waits"]})
    assert "edits[1].submit[0].name: 'new': job exists already" in refusal(
        base, {"submit": [new]}, {"submit": [new]}
    )


def test_the_clock_moves_and_who_is_expected_to_have_ended_is_gone(base):
    assert len(edited(base, {"advance_s": 499}).jobs) == 2
    made = edited(base, {"advance_s": 500})
    assert [one.name for one in made.jobs] == ["waits"]
    assert made == edited(base, {"at": 1500})
    assert made.now == 1500
    assert "edits[0].at: 999: expected no earlier than now, 1000" in refusal(base, {"at": 999})


def test_deadlines_move_and_work_is_done():
    due = [{"at": 5000, "value": 9}, {"at": 9000, "value": 4}]
    job = {"name": "d", "options": [{"groups": [{"gpu": 4}]}],
           "deadline": {"work_s": 1000, "due": due}}  # fmt: skip
    running = {"tasks": [{"host": "h0", "gpus": [0, 1, 2, 3]}]}
    round_ = parse_round(
        {
            **HEAD,
            "kind": "Round",
            "cluster": {"hosts": [{"name": "h[0-1]", "gpus": 4, "gpu_model": "A"}]},
            "policy": {"formulation": "deadline"},
            "leases": {"length_s": 100},
            "jobs": [job, {**job, "name": "r", "running": running}],
        }
    )
    later = edited(round_, {"job": {"d": {"due_later_s": 600}}}).jobs[0].deadline
    assert [one.at for one in later.due] == [5600, 9600]
    assert not edited(round_, {"job": {"d": {"without": ["due"]}}}).jobs[0].deadline.due
    assert "edits[0].job.d.due_later_s: -5001: expected at least -5000" in refusal(
        round_, {"job": {"d": {"due_later_s": -5001}}}
    )
    assert edited(round_, {"advance_s": 300}).jobs[1].deadline.work_s == 700
    assert [one.name for one in edited(round_, {"advance_s": 1000}).jobs] == ["d"]
    assert "policy deadline drains no hosts" in refusal(round_, {"drain": ["h0"]})


def test_data_and_jobs_spread_over_further_regions():
    round_ = parse_round(
        {
            **HEAD,
            "kind": "Round",
            "cluster": {
                "levels": ["region"],
                "domains": [{"name": "A", "level": "region"}, {"name": "B", "level": "region"}],
                "hosts": [{"name": f"{r}0", "parent": r, "gpus": 4, "gpu_model": "x"}
                          for r in "AB"],
            },
            "policy": {"formulation": "geo"},
            "geo": {"datasets": [{"name": "d", "size": 5, "replicas": ["A"]}]},
            "jobs": [
                {
                    "name": "j",
                    "regions": ["B"],
                    "reads": [{"dataset": "d", "gib": 1, "remote": False}],
                    "options": [{"groups": [{"gpu": 1}]}],
                }
            ],
        }
    )  # fmt: skip
    made = edited(round_, {"replicate": {"dataset": "d", "regions": ["B"]}})
    assert made.geo.datasets[0].replicas == ("A", "B")
    assert edited(round_, {"job": {"j": {"add_regions": ["A"]}}}).jobs[0].regions == ("B", "A")
    assert edited(round_, {"job": {"j": {"without": ["regions"]}}}).jobs[0].regions is None
    assert edited(round_, {"job": {"j": {"remote": True}}}).jobs[0].reads[0].remote
    assert "unknown region" in refusal(round_, {"job": {"j": {"regions": ["C"]}}})
    assert "did you mean d?" in refusal(round_, {"replicate": {"dataset": "D", "regions": ["B"]}})


def test_errors_name_the_edit_whatever_is_wrong(base):
    said = refusal(base, {"fail": ["b0"]}, {"job": {"waits": {"required": "rak"}}})
    assert said.startswith("edits[1].job: leads to an invalid round: jobs[1].options[0]")
    assert said.endswith("'rak': unknown level; expected host or rack; did you mean rack?")
    assert "edits[0]: fail and at in one edit" in refusal(base, {"fail": ["b0"], "at": 5})
    assert "did you mean fail?" in refusal(base, {"fial": ["b0"]})
    assert "edits[1]: empty" in refusal(base, {"fail": ["b0"]}, {})
    assert "edits[0].job.waits.required: given although" in refusal(
        base, {"job": {"waits": {"required": "rack", "without": ["required"]}}}
    )


EVERY = (
    ({"drain": ["a0"]}, "Host a0 is drained."),
    ({"fail": ["a[0-1]"]}, "Hosts a[0-1] fail."),
    ({"restore": ["a0", "b0"]}, "Hosts a0 and b0 are back."),
    ({"release": ["a2"]}, "Host a2 is no longer reserved."),
    ({"add": {"like": "a", "count": 2}}, "2 copies of a are added."),
    ({"gpu_links": {"hosts": ["a0"], "to": "m"}}, "GPUs of a0 are joined as in m."),
    ({"quota": {"t": {"more": {"gpu": 16}}}}, "Tenant t may hold 16 GPUs more."),
    (
        {"cap": {"c": {"to": {"jobs": 4}, "more": {"gpus_by_model": {"H100": 4}}}}},
        "Cap c allows 4 jobs, allows 4 GPUs of model H100 more.",
    ),
    (
        {
            "pool": {
                "power_w": {"to": 9},
                "heat": {"level": "rack", "domains": ["a", "b"], "more": 500},
            }
        },
        "The cluster has 9 of power_w; rack a and b have 500 of heat more.",
    ),
    ({"limits": {"to": {"preempted_gpus": 8}}}, "Disruption: preempted_gpus is 8 GPUs."),
    (
        {"job": {"waits": {"count": 1, "without": ["required"]}}},
        "Job waits has 1 task, asks no common domain for the tasks of a group.",
    ),
    ({"remove": ["waits"]}, "Job waits is removed."),
    ({"end": ["runs"]}, "Job runs has ended."),
    (
        {"submit": [{"name": "new", "options": [{"groups": [{"gpu": 1}]}]}]},
        "Job new is submitted.",
    ),
    (
        {"replicate": {"dataset": "d", "regions": ["A", "B"]}},
        "Dataset d has replicas in A and B, too.",
    ),
    ({"at": 2000}, "The clock is at 2000."),
    ({"advance_s": 7200}, "The clock is 2h00 later."),
)


@pytest.mark.parametrize(("raw", "sentence"), EVERY)
def test_each_edit_is_a_sentence_and_survives_a_file(raw, sentence, tmp_path):
    edits = edits_of(raw)
    assert sentence_of(edits.edits[0]) == sentence
    for name in ("e.yaml", "e.json"):
        write(edits, tmp_path / name)
        assert load_edits(tmp_path / name) == edits


def test_a_bare_list_of_edits_is_read_too(tmp_path):
    file = tmp_path / "e.json"
    file.write_text('[{"fail": ["a0"]}, {"at": 5}]')
    assert load_edits(file) == edits_of({"fail": ["a0"]}, {"at": 5})
    file.write_text('[{"fail": ["a0"]}, {"fial": ["a0"]}]')
    with pytest.raises(InvalidInputError, match=r"e\.json: edits\[1\]\.fial"):
        load_edits(file)


def test_every_verb_and_every_field_of_a_job_has_a_sentence():
    assert [next(iter(raw)) for raw, _ in EVERY] == list(Edit.model_fields)
    fields = set(sentences._FIELDS) | {"option", "group", "without"}
    assert fields == set(JobEdit.model_fields)


def test_an_edited_round_is_one_of_a_file(base, tmp_path):
    made = edited(base, {"drain": ["a0"]}, {"add": {"like": "b"}}, {"at": 1200})
    write(made, Path(tmp_path) / "round.yaml")
    plan = solve_round(made, isolation="none", time_limit=0.0)
    assert verify(made, plan).ok


def test_a_gang_is_pending_again_if_one_of_its_hosts_fails():
    tasks = [{"index": i, "host": f"h{i}", "gpus": [0]} for i in range(2)]
    gang = {"options": [{"groups": [{"gpu": 1, "count": 2}]}], "running": {"tasks": tasks}}
    hosts = [{"name": "h[0-2]", "gpus": 1, "gpu_model": "A"}]
    jobs = [{"name": "gang", **gang}]
    round_ = parse_round({**HEAD, "kind": "Round", "cluster": {"hosts": hosts}, "jobs": jobs})
    assert edited(round_, {"fail": ["h1"]}).jobs[0].running is None
    assert edited(round_, {"fail": ["h2"]}).jobs == round_.jobs
