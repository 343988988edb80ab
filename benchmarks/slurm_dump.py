"""The placement of a Slurm 22.05, from its JSON and its configuration.

A reading for captured dumps, no converter: what it leaves out `slurm_placement` says.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.live_placements import Placement, placement_of, raw_round
from placewright.instances.derived.ranges import expand
from placewright.instances.documents.plan import Task

__all__ = ["slurm_placement"]

PRIORITIES = {"low": 0, "normal": 1, "high": 2}
FOR_A_PLACE = ("None", "Resources", "Priority", "AssocGrpGRES")
"""Reasons of Slurm's jobs that run, or wait for a place or for quota, and for nothing else."""


def slurm_placement(folder: Path) -> Placement:
    """Read the jobs of a Slurm 22.05 that run, or wait for a place or quota, where they are.

    All of them are pending, and the plan starts those that run: with the GPUs, cores and memory
    that they were given, on any hosts of their partition. Left out are jobs that wait for something
    else (a time, a dependency, a limit per user or of a partition, hosts that are away). What runs
    inside a reservation stays there. Hosts of active reservations take nothing.
    """
    nodes = json.loads(_first(folder, "sinfo.json", "nodes.v0.0.38.json").read_text())["nodes"]
    dumped = json.loads(_first(folder, "jobs.json", "jobs.v0.0.38.json").read_text())["jobs"]
    leaves, above = _switches(folder / "topology.conf")
    switched = _one_switch(_first(folder, "scontrol-jobs.txt", "jobs.txt"))
    partitions = {name for node in nodes for name in node["partitions"]}
    hosts_of = {p: [n["name"] for n in nodes if p in n["partitions"]] for p in partitions}
    jobs: list[dict[str, Any]] = []
    places: dict[str, tuple[Task, ...]] = {}
    left_out: list[str] = []
    parts: defaultdict[int, list[Mapping[str, Any]]] = defaultdict(list)
    for one in dumped:
        parts[one.get("het_job_id") or one["job_id"]].append(one)
    for number, members in parts.items():
        first = members[0]
        name = f"{first['name']}-{number}"
        if any(one["state_reason"] not in FOR_A_PLACE for one in members):
            left_out.append(name)
            continue
        groups = [_slurm_group(one, hosts_of[one["partition"]]) for one in members]
        if number in switched:
            groups[0]["required"] = "leaf"
        job: dict[str, Any] = {
            "name": name,
            "tenant": first["account"],
            "priority": PRIORITIES[first["qos"]],
            "options": [{"groups": groups}],
        }
        if first["job_state"] == "RUNNING":
            tasks = tuple(_slurm_tasks(first))
            if first.get("resv_name"):
                written = [{"index": t.index, "host": t.host, "gpus": t.gpus} for t in tasks]
                job["running"] = {"option": 0, "tasks": written, "pinned": True}
            else:
                places[name] = tasks
        jobs.append(job)
    raw = raw_round(
        folder.name,
        levels=["spine", "leaf"],
        domains=[
            *({"name": spine, "level": "spine"} for spine in dict.fromkeys(above.values())),
            *({"name": leaf, "level": "leaf", "parent": above[leaf]} for leaf in leaves.values()),
        ],
        hosts=[_slurm_host(node, leaves[node["name"]]) for node in nodes],
        jobs=jobs,
    )
    raw["cluster"]["domains"] = list(
        {(d["level"], d["name"]): d for d in raw["cluster"]["domains"]}.values()
    )
    raw["tenants"] = _accounts(folder / "assoc.txt")
    raw["policy"] |= {"priority": "strict", "spread_weights": {"leaf": 1, "spine": 4}}
    raw["reservations"] = [{"host": host} for host in _reserved(folder / "reservations.txt")]
    return placement_of(raw, places)._replace(left_out=tuple(left_out))


def _first(folder: Path, *names: str) -> Path:
    return next(folder / name for name in names if (folder / name).is_file())


def _expand(text: str) -> list[str]:
    """Expand a host list such as `h[12-15,28-29],a0`."""
    found: list[str] = []
    for part in re.findall(r"[^,\[]+(?:\[[^\]]*\])?", text):
        prefix, _, inside = part.partition("[")
        spans: Iterable[str] = inside.rstrip("]").split(",") if inside else [""]
        for span in spans:
            found += expand(f"{prefix}[{span}]") if "-" in span else [prefix + span]
    return found


def _switches(path: Path) -> tuple[dict[str, str], dict[str, str]]:
    """Return the leaf of each node, and what is above each leaf."""
    leaves: dict[str, str] = {}
    above: dict[str, str] = {}
    for switch, kind, members in re.findall(
        r"^SwitchName=(\S+) (Nodes|Switches)=(\S+)", path.read_text(), re.MULTILINE
    ):
        for member in _expand(members):
            (leaves if kind == "Nodes" else above)[member] = switch
    return leaves, {leaf: above.get(leaf, "none") for leaf in leaves.values()}


def _one_switch(path: Path) -> set[int]:
    """Return the jobs that ask for one leaf switch (`--switches=1`), which no JSON tells."""
    blocks = re.split(r"\n\s*\n", path.read_text())
    found = [re.search(r"JobId=(\d+).*Switches=1@", block, re.DOTALL) for block in blocks]
    return {int(match[1]) for match in found if match}


def _slurm_host(node: Mapping[str, Any], leaf: str) -> dict[str, Any]:
    match = re.match(r"gpu:(\w+):(\d+)", node["gres"])
    away = node["state"] == "down" or "DRAIN" in node["state_flags"]
    return {
        "name": node["name"],
        "parent": leaf,
        "gpus": int(match[2]) if match else 0,
        **({"gpu_model": match[1].upper()} if match else {}),
        "cpu": node["cpus"],
        "memory": f"{node['real_memory']}Mi",
        "healthy": not away,
    }


def _amounts(text: str) -> dict[str, str]:
    return dict(part.split("=") for part in text.split(",") if part)


def _mebibytes(text: str) -> int:
    return int(float(text[:-1]) * {"M": 1, "G": 1024, "T": 1024**2}[text[-1]])


def _slurm_group(job: Mapping[str, Any], hosts: Sequence[str]) -> dict[str, Any]:
    """Return the tasks of a job, one per host; of one that asks GPUs per task, one per GPU."""
    given = _amounts(job["tres_alloc_str"] or job["tres_req_str"])
    gpus = int(given.get("gres/gpu", 0))
    held = [_indices(text) for text in job["gres_detail"]]
    if job["tres_per_task"]:
        count = gpus
    else:
        count = len(_expand(job["nodes"])) if job["nodes"] else int(given["node"])
    allowed = set(hosts) - set(_expand(job["excluded_nodes"] or ""))
    group: dict[str, Any] = {
        "count": count,
        "gpu": gpus // count,
        "cpu": int(given["cpu"]) // count,
        "memory": f"{_mebibytes(given['mem']) // count}Mi",
        "hosts": sorted(allowed),
    }
    if count > 1 and not job["tres_per_task"]:
        group["apart"] = {"level": "host"}
    if len({len(one) for one in held}) > 1 and not job["tres_per_task"]:
        raise ValueError(f"job {job['job_id']} has uneven GPUs; expected as many on each host")
    return group


def _indices(text: str) -> list[int]:
    """Return the GPUs of `gpu:h100:8(IDX:0-3,6)`."""
    match = re.search(r"IDX:([\d,-]+)", text)
    spans = match[1].split(",") if match else []
    pairs = [(span.split("-")[0], span.split("-")[-1]) for span in spans]
    return [i for low, high in pairs for i in range(int(low), int(high) + 1)]


def _slurm_tasks(job: Mapping[str, Any]) -> Iterator[Task]:
    hosts = _expand(job["nodes"])
    held = [_indices(text) for text in job["gres_detail"]] or [[] for _ in hosts]
    places = list(zip(hosts, held, strict=True))
    if job["tres_per_task"]:
        places = [(host, [gpu]) for host, gpus in places for gpu in gpus]
    for i, (host, gpus) in enumerate(places):
        yield Task(index=i, host=host, gpus=tuple(gpus))


def _reserved(path: Path) -> list[str]:
    """Return the hosts of the reservations that are active."""
    found = [
        re.search(r"Nodes=(\S+)", record)
        for record in re.split(r"\n\s*\n", path.read_text())
        if "State=ACTIVE" in record
    ]
    return [host for match in found if match for host in _expand(match[1])]


def _accounts(path: Path) -> list[dict[str, Any]]:
    """Return accounts with their limit of GPUs (`GrpTRES`), which counts for all users together."""
    heading, *lines = [line.split("|") for line in path.read_text().splitlines()]
    rows = [dict(zip(heading, line, strict=False)) for line in lines]
    accounts = [row for row in rows if not row["User"]]
    return [
        {
            "name": row["Account"],
            **(
                {"quota": {"gpu": int(limit)}}
                if (limit := _amounts(row["GrpTRES"]).get("gres/gpu"))
                else {}
            ),
        }
        for row in accounts
    ]
