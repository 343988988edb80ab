"""Drawing of caps, in which jobs count, and of who may preempt whom."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from fuzz.drawing import chance
from fuzz.policy import Raw

GPUS = (0, 500, 1000, 2000, 2000, 3000)


def draw_caps(
    rng: Random, round_: Raw, gpus: Sequence[int] = GPUS, *, by_model: bool = True
) -> None:
    """Give a round one to three caps, and let its jobs count in them."""
    hosts = round_["cluster"]["hosts"]
    models = sorted({host["gpu_model"] for host in hosts if "gpu_model" in host})
    capped = models if by_model else []
    caps = {f"c{i}": _cap(rng, hosts, capped, gpus) for i in range(rng.randint(1, 3))}
    round_["caps"] = caps
    for job in round_["jobs"]:
        names = [name for name in caps if chance(rng, 0.6)]
        if any(caps[name].get("gpus_by_model") for name in names) and not _of_one_model(
            rng, round_, job, models
        ):
            names = [name for name in names if not caps[name].get("gpus_by_model")]
        if names:
            job["caps"] = rng.sample(names, len(names))
    if chance(rng, 0.3):
        _draw_seats(rng, round_)


def _draw_seats(rng: Random, round_: Raw) -> None:
    """Limit what options alone count: seats that no host has."""
    caps = list(round_["caps"].values())
    for cap in rng.sample(caps, rng.randint(1, len(caps))):
        cap.setdefault("resources", {})["seat@x"] = rng.choice((0, 1, 2, 2, 3))
    for job in round_["jobs"]:
        for option in job["options"]:
            if chance(rng, 0.6):
                option.setdefault("uses", {})["seat@x"] = rng.choice((1, 1, 2))


def draw_leave(rng: Random, round_: Raw) -> None:
    """Say who may preempt whom: rules of tenants and of jobs."""
    for tenant in round_.get("tenants", ()):
        if chance(rng, 0.7):
            rule: Raw = {
                "within": rng.choice(("never", "lower")),
                "reclaim": rng.choice(("never", "lower", "any")),
                "borrow": rng.choice(("never", "lower", "lower")),
                "cohort": rng.choice(("a", "a", "a", "b")),
            }
            if chance(rng, 0.3):
                rule["borrow_up_to"] = rng.choice((-1, 0, 1))
            tenant["preemption"] = rule if chance(rng, 0.9) else {}
    for job in round_["jobs"]:
        if chance(rng, 0.25):
            caps = list(round_.get("caps", ()))
            job["preempts"] = rng.sample(caps, rng.randint(0, len(caps)))


def _cap(rng: Random, hosts: list[Raw], models: list[str], gpus: Sequence[int]) -> Raw:
    cap: Raw = {}
    if chance(rng, 0.6):
        cap["gpus"] = rng.choice(gpus)
    if chance(rng, 0.35):
        cap["jobs"] = rng.choice((0, 1, 1, 2, 3))
    if models and chance(rng, 0.35):
        chosen = rng.sample(models, rng.randint(1, len(models)))
        cap["gpus_by_model"] = {model: rng.choice(gpus) for model in chosen}
    if chance(rng, 0.15) and any("cpu" in host for host in hosts):
        cap["resources"] = {"cpu": rng.choice((1, 2, 4))}
    return cap


def _of_one_model(rng: Random, round_: Raw, job: Raw, models: list[str]) -> bool:
    """Let each task group of a job have one GPU model; return whether that was possible."""
    model_of = {host["name"]: host.get("gpu_model", "") for host in round_["cluster"]["hosts"]}
    running = job.get("running")
    if running is None:
        for option in job["options"]:
            for group in option["groups"]:
                group["gpu_models"] = [rng.choice(group.get("gpu_models") or models)]
        return True
    option = job["options"][running.get("option", 0)]
    for number, group in enumerate(option["groups"]):
        tasks = [task for task in running["tasks"] if task.get("group", 0) == number]
        there = {model_of[task["host"]] for task in tasks}
        if len(there) > 1 or not there <= {*(group.get("gpu_models") or models)}:
            return False
        group["gpu_models"] = sorted(there)
    for other in job["options"]:
        for group in other["groups"] if other is not option else ():
            group["gpu_models"] = [rng.choice(group.get("gpu_models") or models)]
    return True
