"""What the service shows of a round and its plan, for every policy."""

from __future__ import annotations

from importlib.resources import files

import pytest

from placewright import load_round, solve_round
from placewright.explain.places import free_and_total
from placewright.instances.documents.plan import DecisionKind
from placewright.live.serve.service import MAX_REASON, snapshot_of

LIBRARY = files("placewright.instances") / "library"


@pytest.mark.parametrize(
    "name", ["pending", "chronus", "muri", "hived", "mast-regions", "mast-replicas"]
)
def test_each_policy_has_a_page_and_its_jobs(name):
    round_ = load_round(str(LIBRARY / f"{name}.yaml"))
    plan = solve_round(round_, time_limit=0)
    shown = snapshot_of(round_, plan)
    assert shown.page.lstrip().startswith("<!doctype html>")
    assert set(shown.jobs) == {job.name for job in round_.jobs}
    assert plan.certificate is not None
    assert set(shown.gaps) == {term.name for term in plan.certificate.terms}
    assert shown.free == free_and_total(round_, plan)[0]
    for decision in plan.decisions:
        places = shown.jobs[decision.job]
        assert [task.host for task in places.tasks] == [task.host for task in decision.tasks]
        if decision.decision is DecisionKind.WAIT and decision.reason is not None:
            assert places.why.startswith(f"{decision.reason.value}: ")
            assert len(places.why) <= MAX_REASON


def test_pods_of_a_job_that_waits_are_known(bundled):
    from placewright.instances import parse_round

    raw = bundled("quickstart")
    waits = next(job for job in raw["jobs"] if job["name"] == "homework")
    waits["annotations"] = {"kubernetes/pod-uids/0": "a,b"}
    round_ = parse_round(raw)
    assert snapshot_of(round_, solve_round(round_, time_limit=0)).jobs["homework"].owners == (
        "a",
        "b",
    )


def test_tasks_have_the_pods_of_the_annotations():
    from placewright.instances import parse_round

    round_ = parse_round(
        {
            "apiVersion": "placewright/v1alpha2",
            "kind": "Round",
            "cluster": {"hosts": [{"name": "h[0-3]", "gpus": 8, "gpu_model": "H100"}]},
            "jobs": [
                {
                    "name": "gang",
                    "options": [
                        {
                            "groups": [
                                {"name": "leader", "gpu": 1},
                                {"name": "workers", "count": 2, "gpu": 8},
                            ]
                        }
                    ],
                    "annotations": {
                        "kubernetes/uid": "uid-of-group",
                        "kubernetes/owner-uid": "uid-of-owner",
                        "kubernetes/pod-uids/0": "leader-0",
                        "kubernetes/pod-uids/1": "worker-0,worker-1",
                    },
                }
            ],
        }
    )
    plan = solve_round(round_, time_limit=0)
    places = snapshot_of(round_, plan).jobs["gang"]
    assert places.owners == ("uid-of-group", "uid-of-owner")
    assert {(task.pod, task.milli_gpu) for task in places.tasks} == {
        ("leader-0", 1000),
        ("worker-0", 8000),
        ("worker-1", 8000),
    }
