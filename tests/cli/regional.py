"""Rounds with regions and plans of them, made without a solver: times in minutes from now."""

from __future__ import annotations

from typing import Any

from placewright.instances.documents.plan import Plan
from placewright.instances.documents.round import Round

NOW = 86_400
TIB = 1024


def at(minutes: float) -> int:
    return NOW + round(60 * minutes)


def job(name: str, gpus: int, *reads: str | dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return a job that reads 512 GiB of each dataset named, or what an entry says."""
    entries = [{"dataset": r, "gib": 512} if isinstance(r, str) else r for r in reads]
    return {
        "name": name,
        "options": [{"groups": [{"gpu": gpus}]}],
        "reads": entries,
        **more,
    }


def running(host: str, first: int, end: int) -> dict[str, Any]:
    return {"running": {"tasks": [{"host": host, "gpus": list(range(first, end))}]}}


def document(formulation: str, jobs: list[dict[str, Any]], **geo: Any) -> Round:
    """Return a round of three regions: east and south with a host of 8 GPUs, west with two."""
    names = ("east", "south", "west")
    links = [
        {"source": "east", "target": "south", "bandwidth": 1000, "rtt_us": 40_000, "budget": 2048},
        {"source": "south", "target": "east", "bandwidth": 1000, "rtt_us": 40_000, "budget": 2048},
        {"source": "south", "target": "west", "bandwidth": 1000, "rtt_us": 30_000, "egress": 2000},
        {"source": "east", "target": "west", "bandwidth": 500, "rtt_us": 60_000, "budget": 1024},
    ]
    hosts = [
        {"name": "e0", "parent": "east", "gpus": 8, "gpu_model": "H100"},
        {"name": "s0", "parent": "south", "gpus": 8, "gpu_model": "A100"},
        {"name": "w[0-1]", "parent": "west", "gpus": 8, "gpu_model": "H100"},
    ]
    return Round.model_validate(
        {
            "name": "regions",
            "now": NOW,
            "cluster": {
                "levels": ["region"],
                "domains": [{"level": "region", "name": name} for name in names],
                "hosts": hosts,
            },
            "jobs": jobs,
            "policy": {"formulation": formulation},
            "geo": {
                "regions": [
                    {"name": "east", "storage": 4 * TIB, "prices": {"H100": 2_000_000}},
                    {"name": "south", "storage": 2 * TIB, "prices": {"A100": 1_500_000}},
                ],
                "links": links,
                "datasets": [
                    {"name": "web", "size": TIB, "replicas": ["east"]},
                    {"name": "code", "size": 512, "replicas": ["east"]},
                    {"name": "books", "size": 512, "replicas": ["south"]},
                    {"name": "lost", "size": 64},
                ],
                **geo,
            },
        }
    )


def slow() -> tuple[Round, Plan]:
    """Return a round of `replicas`, and a plan that moves, creates and drops a replica each."""
    round_ = document(
        "replicas",
        [
            job("train", 8, "web"),
            job("tune", 4, "web", "code"),
            job("serve", 8, "web", **running("e0", 0, 8)),
            job("read", 2, "books"),
            job("orphan", 4, {"dataset": "lost", "gib": 64}),
            job("free", 1),
        ],
        datasets=[
            {"name": "web", "size": TIB, "replicas": ["east"]},
            {"name": "code", "size": 512, "replicas": ["east"]},
            {"name": "books", "size": 512, "replicas": ["east", "south"]},
            {"name": "lost", "size": 64},
        ],
    )
    plan = Plan.model_validate(
        {
            "decisions": [
                {"job": "train", "decision": "wait", "reason": "not_asked"},
                {"job": "tune", "decision": "wait", "reason": "not_asked"},
                {
                    "job": "serve",
                    "decision": "keep",
                    "option": 0,
                    "tasks": [{"host": "e0", "gpus": list(range(8))}],
                },
                {"job": "read", "decision": "wait", "reason": "not_asked"},
                {"job": "orphan", "decision": "wait", "reason": "no_region"},
                {"job": "free", "decision": "wait", "reason": "not_asked"},
            ],
            "sections": [
                {
                    "kind": "replicas",
                    "creates": [
                        {"dataset": "web", "region": "west", "ready": at(300)},
                        {"dataset": "code", "region": "south", "ready": at(400)},
                    ],
                    "drops": [
                        {"dataset": "code", "region": "east", "at": at(400)},
                        {"dataset": "books", "region": "east", "at": at(0)},
                    ],
                    "homes": [
                        {"job": "train", "region": "west", "gpu_model": "H100"},
                        {"job": "tune", "region": "west", "gpu_model": "H100"},
                        {"job": "serve", "region": "east", "gpu_model": "H100"},
                        {"job": "read", "region": "south", "gpu_model": "A100"},
                        {"job": "free", "region": "south", "gpu_model": "A100"},
                    ],
                },
                {
                    "kind": "flows",
                    "flows": [
                        {
                            "dataset": "web",
                            "path": ["east", "west"],
                            "gib": 768,
                            "start": at(0),
                            "end": at(300),
                        },
                        {
                            "dataset": "web",
                            "path": ["east", "south", "west"],
                            "gib": 256,
                            "start": at(0),
                            "end": at(120),
                        },
                        {
                            "dataset": "code",
                            "path": ["east", "south"],
                            "gib": 512,
                            "start": at(120),
                            "end": at(400),
                        },
                    ],
                },
            ],
        }
    )
    return round_, plan


def fast() -> tuple[Round, Plan]:
    """Return a round of `geo`, and a plan that reads over a link and lets two jobs wait."""
    here = {"remote": False}
    round_ = document(
        "geo",
        [
            job("old", 6, "web", **running("e0", 0, 6)),
            job("far", 4, "books"),
            job("wide", 8, {"dataset": "books", "gib": 512, **here}),
            job("soon", 8, {"dataset": "web", "gib": 512, **here}),
            job("later", 8, {"dataset": "code", "gib": 100}, regions=["south"]),
            job("big", 8, {"dataset": "web", "gib": 512, **here}),
        ],
        copying=[{"dataset": "web", "region": "west", "ready": at(90)}],
    )
    plan = Plan.model_validate(
        {
            "decisions": [
                {
                    "job": "old",
                    "decision": "keep",
                    "option": 0,
                    "tasks": [{"host": "e0", "gpus": list(range(6))}],
                },
                {
                    "job": "far",
                    "decision": "start",
                    "option": 0,
                    "tasks": [{"host": "w0", "gpus": list(range(4))}],
                },
                {
                    "job": "wide",
                    "decision": "start",
                    "option": 0,
                    "tasks": [{"host": "s0", "gpus": list(range(8))}],
                },
                {"job": "soon", "decision": "wait", "reason": "data"},
                {"job": "later", "decision": "wait", "reason": "not_chosen"},
                {"job": "big", "decision": "wait", "reason": "capacity"},
            ],
            "sections": [
                {
                    "kind": "reads",
                    "readers": [{"job": "far", "reads": [{"dataset": "books", "source": "south"}]}],
                    "waiting": [{"job": "soon", "region": "west", "ready": at(90)}],
                },
            ],
        }
    )
    return round_, plan
