"""From a plan that `every_plan` has found to its document, so that `verify` can judge it."""

from __future__ import annotations

from collections import Counter
from typing import Any

from displacers import with_displacers

from placewright.instances.documents.plan import Plan
from placewright.instances.documents.round import Round
from placewright.rounds.sections.moves import move_section

Raw = dict[str, Any]
Place = tuple[str, list[int]]


def written(every: Any, round_: Round, found: Any) -> Plan:
    """Write a plan down, with GPUs and the order of its moves."""
    now, jobs = found.now, every.jobs
    promised = [given is not None for given in found.promises]
    has_now = tuple(has and do is not None for has, do in zip(promised, now, strict=True))
    places = _places(every, now, has_now)
    decisions = []
    for j, (do, before) in enumerate(zip(now, every.before, strict=True)):
        decision: Raw = {"job": jobs[j]["name"]}
        if do is None:
            decision["decision"] = "wait" if before is None else "preempt"
        else:
            stays = before is not None and Counter(do.hosts) == Counter(before.hosts)
            decision["decision"] = "start" if before is None else "keep" if stays else "migrate"
            decision["option"] = do.option
            decision["tasks"] = [
                {"index": index, "host": host, "gpus": gpus}
                for index, (host, gpus) in enumerate(places[j])
            ]
        decisions.append(decision)
    raw: Raw = {
        "apiVersion": "placewright/v1alpha2",
        "kind": "Plan",
        "decisions": decisions,
        "sections": [_leases(every, now, found.promises)],
    }
    moves = move_section(round_, Plan.model_validate(raw).decisions)
    if moves:
        raw["sections"].append(moves)
    return with_displacers(round_, Plan.model_validate(raw))


def _places(every: Any, now: Any, promised: tuple[bool, ...]) -> dict[int, list[Place]]:
    """Return host and GPUs of each task; those that stay on a host keep their GPUs.

    Of those that arrive the first in precedence take GPUs of jobs that were there.
    """
    free = {name: list(range(host["gpus"])) for name, host in every.promises.hosts.items()}
    stay: dict[tuple[int, int], Place] = {}
    left = {j: list(do.hosts) for j, do in enumerate(now) if do is not None}
    for j, hosts in left.items():
        for task in _tasks(every.jobs[j]):
            if task["host"] in hosts:
                hosts.remove(task["host"])
                stay[j, task.get("index", 0)] = task["host"], list(task["gpus"])
                free[task["host"]] = [g for g in free[task["host"]] if g not in task["gpus"]]
    held = {(t["host"], gpu) for job in every.jobs for t in _tasks(job) for gpu in t["gpus"]}
    for host, gpus in free.items():
        gpus.sort(key=lambda gpu, host=host: (host, gpu) not in held)
    places: dict[int, list[Place]] = {}
    ranks = {j: (promised[j], every.jobs[j].get("priority", 0)) for j in left}
    for j, hosts in sorted(left.items(), key=lambda item: ranks[item[0]], reverse=True):
        each = every.promises.group(j, now[j].option)["gpu"] // 1000
        places[j] = []
        for index in range(len(now[j].hosts)):
            if (j, index) not in stay:
                host = hosts.pop(0)
                stay[j, index] = host, [free[host].pop(0) for _ in range(each)]
            places[j].append(stay[j, index])
    return places


def _tasks(job: Raw) -> list[Raw]:
    tasks: list[Raw] = job.get("running", {}).get("tasks", [])
    return tasks


def _leases(every: Any, now: Any, promises: Any) -> Raw:
    jobs: list[Raw] = []
    broken: list[Raw] = []
    refused: list[Raw] = []
    for j, (job, given) in enumerate(zip(every.jobs, promises, strict=True)):
        if "deadline" not in job:
            continue
        name, old = job["name"], job["deadline"].get("promise")
        if given is not None:
            counted = every.promises.counted(j, given.option)
            here = counted if now[j] is None else len(set(now[j].hosts))
            jobs.append(
                {
                    "job": name,
                    "option": given.option,
                    "promise": {"at": given.at, "value": given.value},
                    "finish": every.promises.done(j, given.option, given.leases, here),
                    "leases": _intervals(given.leases),
                }
            )
        elif job["deadline"].get("due"):
            refused.append({"job": name})
        if old is not None and (given is None or given.at > old["at"]):
            broken.append({"job": name, "promise": old})
    length = every.promises.length
    return {"kind": "leases", "length": length, "jobs": jobs, "broken": broken, "refused": refused}


def _intervals(leases: tuple[int, ...]) -> list[list[int]]:
    intervals: list[list[int]] = []
    for lease in leases:
        if intervals and intervals[-1][1] == lease:
            intervals[-1][1] = lease + 1
        else:
            intervals.append([lease, lease + 1])
    return intervals
