"""Small dumps made by hand, in the words of v0.0.38."""

from __future__ import annotations

import json

from placewright.instances.converters import read_slurm

NODE = {"state": "idle", "partitions": ["p"], "cpus": 16, "real_memory": 1024, "threads": 1}
JOB = {
    "job_state": "PENDING",
    "state_reason": "Resources",
    "partition": "p",
    "submit_time": 100,
    "node_count": 1,
    "requeue": True,
}


def node(name, gres="gpu:h100:8", **more):
    return {"name": name, "gres": gres, **NODE, **more}


def job(job_id, **more):
    return {"job_id": job_id, **JOB, **more}


def running(job_id, *places, **more):
    """A running job: places are (node, cores, MiB, GRES)."""
    allocated = [
        {"nodename": n, "memory_allocated": memory, "sockets": {"0": {"cores": _cores(cores)}}}
        for n, cores, memory, _ in places
    ]
    state = {"job_state": "RUNNING", "state_reason": "None", "start_time": 100}
    return job(
        job_id,
        **state,
        nodes=",".join(n for n, *_ in places),
        node_count=len(places),
        job_resources={"allocated_nodes": allocated},
        gres_detail=[gres for *_, gres in places],
        **more,
    )


def _cores(number):
    return {str(core): "allocated" for core in range(number)}


def write_dump(folder, jobs, nodes, **texts):
    """Write a dump into a folder; `texts` are other files by stem."""
    (folder / "jobs.json").write_text(json.dumps({"jobs": jobs}))
    (folder / "nodes.json").write_text(json.dumps({"nodes": nodes}))
    for stem, text in texts.items():
        (folder / f"{stem}.txt").write_text(text)
    return folder


def convert(folder, jobs, nodes=None, *, movable=False, **texts):
    nodes = [node(f"h{i}") for i in range(4)] if nodes is None else nodes
    return read_slurm([write_dump(folder, jobs, nodes, **texts)], movable=movable)


def reason(made, name):
    """Return why a job is left out."""
    return next(why for (_, why), names in made.book.left_out.items() if name in names)
