"""The forms of sbatch on a real Slurm: what it runs where is an option, and a plan keeps the form.

What Slurm does of itself on an empty cluster is a plan that the verifier accepts. What a plan
starts, Slurm runs on exactly its hosts, with the request as the user made it.
"""

from __future__ import annotations

import json
from collections import defaultdict

import pytest

from benchmarks.slurm_lab import Lab, Size
from benchmarks.slurm_trip import read
from placewright import solve_round
from placewright.instances.converters.slurm.texts import expand, read_gres
from placewright.instances.derived.slurm_marks import HELD
from placewright.instances.documents.plan import Decision, DecisionKind, Plan, Task
from placewright.instances.exporters.slurm import slurm_script
from placewright.instances.verify import verify

pytestmark = pytest.mark.slurm

ODD = ("gpu:1g.10gb:7,gpu:3g.40gb:2", "gpu:l40s:4,shard:16", "gpu:a100:2,gpu:v100:4")

FORMS = """
-N2 --gpus-per-node=4
-N2-4 --gpus-per-node=4
-N1-3 -n3 --gpus-per-node=2
-N2 --gres=gpu:h100:2 --ntasks-per-node=4
-n4 --gres=gpu:2
-n200 --gres=gpu:2
-n8 --gpus-per-node=4 --ntasks-per-node=3
-N2 -n3 --gpus-per-node=2
--gpus=12
--gpus=16 -n16
--gpus=16 -n2
--gpus=h100:10 -n4
--gpus=12 -N2
--gpus=5 -N2-3
--gpus=12 --mem=100G
--gpus=6 --gpus-per-node=2
-N2 -n2 --gpus=2
-N2 -n2 --gpus-per-task=1
-N2 -n5 --gpus-per-task=1
-n12 --gpus-per-task=2
-n3 --gpus-per-task=3
-n5 --gpus-per-task=1 --ntasks-per-node=2
--gpus=4 --ntasks-per-gpu=2
--gpus=8 --cpus-per-gpu=20
-N2 --gpus-per-node=4 --cpus-per-gpu=8
-N1 --gres=gpu:2 --mem-per-gpu=300G
-N2 --gres=gpu:1 --exclusive
--gpus=12 --exclusive
-n3 --gpus-per-task=4 --exclusive
-N2 --gpus-per-node=8 --switches=1
-w gpu02 --gpus=12
-w gpu02,gpu03 -N3 --gpus-per-node=2
--array=1-2 -N2 --gpus=2
-p odd0 --gres=gpu:3g.40gb:1
-p odd0 --gres=gpu:2
-p odd0 --gres=gpu:1g.10gb:2,gpu:3g.40gb:1
-p odd1 --gres=gpu:2
-p odd1 --gres=shard:3
-p odd2 --gres=gpu:5
-p odd2 --gres=gpu:a100:1
-p odd2 --gpus=a100:1,v100:2
""".strip().splitlines()


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    size = Size(hosts=4, per_leaf=2, per_spine=2, odd=ODD)
    with Lab(tmp_path_factory.mktemp("forms"), size) as started:
        yield started


def submit(lab, form):
    number = lab.submit(*form.split(), "--hold", "--time=10")
    lab.run("scontrol", "update", f"jobid={number}", f"AdminComment={HELD}")
    return number


def listed(lab):
    return {job["job_id"]: job for job in json.loads(lab.run("squeue", "--json"))["jobs"]}


def placements(option, places):
    """Yield the tasks of an option on hosts with GPUs, of which it may leave some."""
    left = {host: list(indices) for host, indices in places.items()}
    tasks = []
    for g, group in enumerate(option.groups):
        need, most = -(-group.gpu // 1000), 1 if group.apart else group.count
        if "node" in group.resources and group.resources["node"] > 1:
            most = 1
        found = []
        named = {name for part in group.hosts or () for name in expand(part)}
        for host in (one for one in left if need and (not named or one in named)):
            while len(left[host]) >= need and sum(h == host for h, _ in found) < most:
                found.append((host, tuple(left[host][:need])))
                del left[host][:need]
        spread = sorted(
            found, key=lambda one: sum(h == one[0] for h, _ in found[: found.index(one)])
        )
        for index, (host, gpus) in enumerate(spread[: group.count]):
            tasks.append(Task(group=g, index=index, host=host, gpus=gpus))
    if len(tasks) == sum(group.count for group in option.groups):
        yield tuple(tasks)


def as_a_plan(round_, name, places):
    """Return whether a job of a round can be where Slurm runs it, as the verifier says."""
    policy = round_.policy.model_copy(update={"backfill": None})
    round_ = round_.model_copy(update={"policy": policy})
    job = next(job for job in round_.jobs if job.name.split("_")[0] == name)
    said = []
    for at, option in enumerate(job.options):
        for tasks in placements(option, places):
            start = Decision(job=job.name, decision=DecisionKind.START, option=at, tasks=tasks)
            waits = (
                Decision(job=other.name, decision=DecisionKind.WAIT)
                for other in round_.jobs
                if other.name != job.name
            )
            found = verify(round_, Plan(decisions=(start, *waits)))
            if found.placement_ok and {task.host for task in tasks} == set(places):
                return []
            said.append((option, tasks, found))
    return said or [job.options]


@pytest.mark.nightly(after=2)
@pytest.mark.parametrize("form", FORMS)
def test_what_slurm_runs_where_is_an_option_of_the_round(lab, form):
    lab.cancel_all()
    number = submit(lab, form)
    round_ = read(lab)
    lab.run("scontrol", "release", str(number))
    lab.settle(jobs=[number])
    runs = listed(lab)[number]
    places = defaultdict(list)
    for host, text in zip(lab.expand(runs["nodes"]), runs["gres_detail"], strict=True):
        gres = read_gres(text)
        places[host] += gres.indices or gres.part_indices
    assert as_a_plan(round_, str(number), places) == []


KEPT = (
    *("tres_per_node", "tres_per_task", "tres_per_job", "cpus_per_tres", "memory_per_tres"),
    *("memory_per_node", "tasks_per_node", "excluded_nodes", "shared"),
)


# A third of them, since each takes seconds: the script is the same for all.
@pytest.mark.nightly(after=1)
@pytest.mark.parametrize("form", FORMS[::3])
def test_what_a_plan_starts_slurm_runs_there_as_the_user_asked_it(lab, form):
    lab.cancel_all()
    busy = lab.submit("-w", "gpu00", "--gpus-per-node=2", "-N1")
    lab.settle(jobs=[busy])
    number = submit(lab, form)
    asked, shown = listed(lab)[number], lab.run("scontrol", "show", "job", str(number))
    round_ = read(lab)
    plan = solve_round(round_)
    first = next(d for d in plan.decisions if d.job.split("_")[0] == str(number))
    assert first.decision is DecisionKind.START
    if "--array" in form:
        plan = plan.model_copy(update={"decisions": tuple(d for d in plan.decisions if d is first)})
    lab.run("sh", text=slurm_script(round_, plan).text)
    lab.settle(jobs=[number])
    runs = next(
        job
        for job in listed(lab).values()
        if job["job_state"] == "RUNNING" and job["job_id"] != busy
    )
    assert set(lab.expand(runs["nodes"])) == {task.host for task in first.tasks}
    assert {key: runs[key] for key in KEPT} == {key: asked[key] for key in KEPT}
    assert asked["node_count"] <= runs["node_count"] <= (asked["max_nodes"] or 99), shown
