"""Scripts of exporters are run: what arrives at kubectl's server, and at scontrol, was meant.

Each way by which a script may come to a shell, rounds with every kind of step, and names and texts
as hostile as documents let them be.
"""

from __future__ import annotations

from typing import Any

import pytest
from script_runs import WAYS, KubernetesLog, SlurmLog

from placewright import Round
from placewright.instances.documents.plan import Decision, DecisionKind, Plan, Task
from placewright.instances.exporters.kubernetes import kubernetes_script
from placewright.instances.exporters.kueue import kueue_script
from placewright.instances.exporters.needs import VAIN
from placewright.instances.exporters.slurm import PATIENCE_S, slurm_script, slurm_steps
from placewright.instances.io.files import parse_round

EIGHT = tuple(range(8))
HOSTILE = "END\nEND'; touch pwned; $(touch pwned) `touch pwned` \\n \x1b[2J é \"<<'END'"
"""A tenant's name in a reason may be any printable text; here the worst that a message can have."""


def round_of(*jobs: Any, hosts: int = 6) -> Round:
    listed = [{"name": f"h{i}", "gpus": 8, "gpu_model": "X"} for i in range(hosts)]
    return parse_round(
        {
            "apiVersion": "placewright/v1alpha2",
            "kind": "Round",
            "now": 1_764_000_000,
            "cluster": {"hosts": listed},
            "jobs": list(jobs),
        }
    )


def job(name: str, count: int = 1, *, on: tuple[str, ...] = (), **notes: str) -> dict[str, Any]:
    raw = {"name": name, "options": [{"groups": [{"count": count, "gpu": 8}]}]}
    tasks = [{"index": i, "host": host, "gpus": list(EIGHT)} for i, host in enumerate(on)]
    running = {"running": {"tasks": tasks}} if on else {}
    return {**raw, **running, "annotations": notes}


def go(
    name: str, *hosts: str, kind: DecisionKind = DecisionKind.START, by: tuple[str, ...] = ()
) -> Decision:
    tasks = tuple(Task(index=i, host=host, gpus=EIGHT) for i, host in enumerate(hosts))
    option = 0 if hosts else None
    return Decision(job=name, decision=kind, option=option, tasks=tasks, displaced_by=by)


def waits(name: str) -> Decision:
    raw = {"job": name, "decision": "wait", "reason": "invalid", "detail": {"message": HOSTILE}}
    return Decision.model_validate(raw)


# Kubernetes


def of_pods(name: str, count: int = 1, *, on: tuple[str, ...] = (), gate: str = "0") -> Any:
    """A job of pods, with the name of a job that a round allows, and Kubernetes never has."""
    pods = [f"{name}-{i}" for i in range(count)]
    notes = {
        "namespace": "ns",
        "name": name,
        "uid": f"u-{name}",
        "kind": "PodGroup",
        "api-version": "v1",
        "pods/0": ",".join(pods),
        "pod-uids/0": ",".join(f"u-{pod}" for pod in pods),
        "gates/0": ",".join([gate] * count),
    }
    return job(f"+{name}|@=", count, on=on, **{f"kubernetes/{k}": v for k, v in notes.items()})


def of_kueue(name: str, **more: str) -> Any:
    notes = {"namespace": "ns", "name": name, "uid": f"u-{name}", "kind": "Workload"}
    notes |= {"api-version": "kueue.x-k8s.io/v1beta2", "pod-sets": "main", **more}
    return job(f"+{name}|@=", **{f"kubernetes/{key}": value for key, value in notes.items()})


OWNED = {"owner-api-version": "batch/v1", "owner-kind": "Job", "owner-name": "j"} | {
    "owner-uid": "u-j",
    "topology": "yes",
}


def n(name: str) -> str:
    return f"+{name}|@="


def everything() -> tuple[Round, Plan]:
    """Jobs of pods and of Kueue: a gang is preempted, one moves, gangs start, one waits."""
    round_ = round_of(
        of_pods("low", 2, on=("h0", "h1"), gate="-"),
        of_pods("moves", on=("h2",), gate="-"),
        of_pods("gang", 2),
        of_pods("alone"),
        of_pods("late"),
        of_pods("victim", on=("h4",), gate="-"),
        of_kueue("job", **OWNED),
        of_kueue("asked", check="1"),
    )
    plan = Plan(
        decisions=(
            go(n("low"), kind=DecisionKind.PREEMPT, by=(n("gang"),)),
            go(n("moves"), "h3", kind=DecisionKind.MIGRATE),
            go(n("victim"), kind=DecisionKind.PREEMPT, by=(n("job"),)),
            go(n("gang"), "h0", "h1"),
            go(n("alone"), "h2"),
            waits(n("late")),
            go(n("job"), "h4"),
            go(n("asked"), "h5"),
        ),
        sections=(
            {"kind": "moves", "steps": [n("low"), n("moves"), n("victim")], "needs_spare": []},
        ),
    )
    return round_, plan


def changes(log: KubernetesLog) -> list[tuple[str, str, Any]]:
    """Return method, object and what is decisive of the body, of all that was no dry run."""
    found = []
    for method, path, body, _ in log.made:
        if method == "PATCH":
            said = [(one["op"], one.get("value")) for one in body if one["op"] != "add"]
        elif method == "DELETE":
            said = body and body["preconditions"]["uid"]
        else:
            said = body["message"]
        found.append((method, path.rpartition("/")[2], said))
    return found


def released(pod: str) -> tuple[str, str, Any]:
    gate = "placewright.dev/plan"
    return "PATCH", pod, [("test", f"u-{pod}"), ("test", gate), ("remove", None)]


@pytest.mark.nightly(after=1)
@pytest.mark.parametrize("way", WAYS)
def test_all_calls_about_pods_arrive_as_they_were_meant(tmp_path, way):
    made = kubernetes_script(*everything())
    with KubernetesLog(tmp_path) as log:
        done = log.run(made.text, way)
    assert "skipped" not in done.stderr
    *calls, (method, path, message) = changes(log)
    assert calls == [
        ("DELETE", "low-0", "u-low-0"),
        ("DELETE", "low-1", "u-low-1"),
        ("DELETE", "moves-0", "u-moves-0"),
        *map(released, ("gang-0", "gang-1", "alone-0")),
    ]
    assert (method, path) == ("POST", "events")
    assert "touch pwned; $(touch pwned) `touch pwned`" in message
    assert made.calls == len(log.made)
    dry = [path.rpartition("/")[2] for _, path, _, dry in log.changes if dry]
    assert dry == ["low-0", "low-1", "moves-0", "gang-0", "gang-1", "alone-0"]
    assert not (tmp_path / "pwned").exists()


@pytest.mark.nightly(after=1)
@pytest.mark.parametrize("way", WAYS)
def test_all_calls_about_workloads_arrive_as_they_were_meant(tmp_path, way):
    made = kueue_script(*everything())
    with KubernetesLog(tmp_path) as log:
        done = log.run(made.text, way)
    assert "skipped" not in done.stderr
    assert changes(log) == [
        ("DELETE", "victim-0", "u-victim-0"),
        ("PATCH", "j", [("test", "u-j"), ("test", True)]),
        ("DELETE", "job", "u-job"),
        (
            "PATCH",
            "status",
            [
                *(("test", value) for value in ("u-asked", "placewright", "Pending")),
                ("replace", "Ready"),
            ],
        ),
    ]


@pytest.mark.nightly(after=2)
@pytest.mark.parametrize("later", [False, True], ids=["asked", "done"])
@pytest.mark.parametrize(
    ("refused", "left"),
    [
        ("low-1", ["low-0", "moves-0", "alone-0"]),
        ("gang-1", ["low-0", "low-1", "moves-0", "gang-0", "alone-0"]),
        ("moves-0", ["low-0", "low-1", "gang-0", "gang-1"]),
        ("alone-0", ["low-0", "low-1", "moves-0", "gang-0", "gang-1"]),
    ],
)
def test_what_needs_a_call_that_is_refused_is_not_done(tmp_path, refused, left, later):
    """A dry run is refused, or, if something changes then, the call itself."""
    with KubernetesLog(tmp_path) as log:
        (log.refuse_later if later else log.refuse).add(refused)
        done = log.run(kubernetes_script(*everything()).text)
    assert f"ns/{refused} is not as it was: skipped" in done.stderr
    if not later:  # then nothing of what belongs together was done
        together = {"low-1": "low gang", "gang-1": "low gang"}.get(refused, "moves alone")
        left = [name for name in left if name.rpartition("-")[0] not in together.split()]
    assert [name for _, name, _ in changes(log) if name not in (refused, "events")] == left


def test_nothing_stops_for_a_job_that_cannot_be_told_to_start(tmp_path):
    """One that has no gate; and one that needs the place of a workload, which nobody stops."""
    round_ = round_of(
        of_pods("low", on=("h0",), gate="-"),
        of_kueue("other") | {"running": job("x", on=("h1",))["running"]},
        of_pods("high", gate="-"),
        of_pods("next"),
        of_pods("free"),
    )
    plan = Plan(
        decisions=(
            go(n("low"), kind=DecisionKind.PREEMPT, by=(n("high"),)),
            go(n("other"), kind=DecisionKind.PREEMPT, by=(n("next"),)),
            go(n("high"), "h0"),
            go(n("next"), "h1"),
            go(n("free"), "h2"),
        ),
    )
    made = kubernetes_script(round_, plan)
    with KubernetesLog(tmp_path) as log:
        log.run(made.text)
    assert changes(log) == [released("free-0")]
    assert f"{VAIN}: 2 jobs" in made.unsaid


# Slurm

OURS = {"state": "PENDING", "reason": "JobHeldUser", "comment": "placewright: held"}
FREE = {"state": "PENDING", "reason": "Resources", "comment": ""}


def running(hosts: str) -> dict[str, str]:
    return {"state": "RUNNING", "reason": "None", "hosts": hosts}


def steps() -> tuple[Round, Plan, dict[str, Any]]:
    """A job is preempted, two swap places, one moves, three start, and two wait."""
    known = {"slurm/user": "ann"}
    round_ = round_of(
        job("1", 2, on=("h0", "h1"), **known),
        job("2", on=("h2",), **known),
        job("3", on=("h3",), **known),
        job("4", on=("h4",), **known),
        job("5", 2, **known),
        job("6", **known),
        job("7", **known),
        job("8", **{**known, "slurm/ours": "Hold,ReqNodeList"}),
        hosts=8,
    )
    plan = Plan(
        decisions=(
            go("1", kind=DecisionKind.PREEMPT, by=("5",)),
            go("2", "h3", kind=DecisionKind.MIGRATE),
            go("3", "h2", kind=DecisionKind.MIGRATE),
            go("4", "h5", kind=DecisionKind.MIGRATE),
            go("5", "h0", "h1"),
            go("6", "h4"),
            go("7", "h6"),
            waits("8"),
        ),
        sections=({"kind": "moves", "steps": ["1", "4"], "needs_spare": ["2", "3"]},),
    )
    jobs = {"1": running("h0,h1"), "2": running("h2"), "3": running("h3"), "4": running("h4")}
    jobs |= {"5": OURS, "6": FREE, "7": OURS}
    jobs["8"] = FREE | {"comment": "placewright: released to h7"}
    return round_, plan, jobs


@pytest.mark.nightly(after=1)
@pytest.mark.parametrize("way", WAYS)
def test_all_commands_of_slurm_arrive_as_they_were_meant(tmp_path, way):
    round_, plan, jobs = steps()
    log = SlurmLog(tmp_path, jobs)
    done = log.run(script(round_, plan), way)
    assert (done.returncode, done.stderr) == (0, "")
    assert {given for _, given in log.all} == {""}
    held = {
        "5": True,
        "6": False,
        "7": True,
        "8": False,
        "2": True,
        "3": True,
        "4": True,
        "1": False,
    }
    assert log.made == [
        list(command.words)
        for step in slurm_steps(round_, plan).steps
        for command in step.commands
        if command.held in (None, held.get(step.job))
    ]
    assert ["scontrol", "uhold", "8"] in log.made
    assert not (tmp_path / "pwned").exists()


def script(round_: Round, plan: Plan) -> str:
    """Return a script that waits for nobody."""
    return slurm_script(round_, plan).text.replace(f"left={PATIENCE_S}", "left=2")


def acted(log: SlurmLog) -> list[str]:
    """Return the jobs that were told to stop or to start, and reservations."""
    verbs = ("requeue", "requeuehold", "release", "create")
    return [f"{words[1]} {words[2]}" for words in log.made if words[1] in verbs]


def case(which: str) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return jobs as Slurm has them, and commands that fail."""
    _, _, jobs = steps()
    changed = {
        "5 is cancelled": {"5": {}},
        "5 is held by an administrator": {"5": OURS | {"reason": "JobHeldAdmin"}},
        "1 runs elsewhere": {"1": running("h7")},
        "3 has ended": {"3": {}},
    }
    failing = {
        "1 cannot be requeued": ("requeue 1",),
        "no reservation is allowed": ("create reservation",),
    }
    return jobs | changed.get(which, {}), failing.get(which, ())


CREATE, MOVE_4 = "create reservation", ["requeuehold 4", "release 4"]
SWAP = ["requeuehold 2", "requeuehold 3", "release 2", "release 3"]


@pytest.mark.nightly(after=1)
@pytest.mark.parametrize(
    ("which", "done"),
    [
        ("5 is cancelled", [CREATE, *SWAP[:2], *MOVE_4, *SWAP[2:], "release 7"]),
        ("5 is held by an administrator", [CREATE, *SWAP[:2], *MOVE_4, *SWAP[2:], "release 7"]),
        ("1 runs elsewhere", [CREATE, *SWAP[:2], *MOVE_4, *SWAP[2:], "release 7"]),
        ("3 has ended", [CREATE, "requeue 1", *MOVE_4, "release 5", "release 7"]),
        ("1 cannot be requeued", [CREATE, "requeue 1", *SWAP[:2], *MOVE_4, *SWAP[2:], "release 7"]),
        ("no reservation is allowed", [CREATE, "release 7"]),
    ],
)
def test_what_needs_a_step_of_slurm_that_is_not_done_is_not_done_either(tmp_path, which, done):
    round_, plan, _ = steps()
    log = SlurmLog(tmp_path, case(which)[0], fail=case(which)[1])
    ended = log.run(script(round_, plan))
    assert acted(log) == done, ended.stderr


def test_nothing_stops_for_a_job_of_slurm_that_cannot_be_told_to_start():
    unknown = {"slurm/job": "five", "slurm/user": "ann"}
    round_ = round_of(job("1", on=("h0",)), job("5", **unknown), job("7"))
    plan = Plan(
        decisions=(
            go("1", kind=DecisionKind.PREEMPT, by=("5",)),
            go("5", "h0"),
            go("7", "h1"),
        )
    )
    made = slurm_steps(round_, plan)
    assert [step.does for step in made.steps] == ["start 7 on h1"]
    assert made.unsaid[VAIN] == ["1"]
    assert made.unsaid["jobs without a number such as 17 or 17_4, which convert slurm gives"] == [
        "5"
    ]
