"""Rules about parts of GPUs: legal starts of MIG slices, and the memory of GPUs.

The table of profiles is read here anew: what is legal on a GPU is counted slice by slice.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from placewright.instances.documents.quantities import memory_in_gi
from placewright.instances.verify.cluster_facts import HostFacts
from placewright.instances.verify.reading import PlacedTask, Reading
from placewright.instances.verify.result import Finding, Rule
from placewright.topology.mig import COMPUTE_SLICES, NO_MIG, PRODUCTS, SLICES, Slice


def slice_on(host: HostFacts, profile: str) -> Slice | None:
    """Return the slice of a MIG profile on a host's GPUs; None if they have no such profile."""
    product = host.hardware.product
    kind = PRODUCTS[product].profiles.get(profile) if product != NO_MIG else None
    return None if kind is None else SLICES[kind]


def slot(reading: Reading) -> Iterator[Finding]:
    """Require a legal start of each arriving MIG slice, and none of other tasks."""
    for placed in (task for job in reading.placed_anew for task in job.tasks):
        given, profile = placed.task.slot, placed.group.mig
        if profile is None:
            if given is not None:
                yield Finding(
                    (*placed.path, "slot"),
                    f"slot {given} of a task that asks for no MIG slice; expected none",
                )
            continue
        kind = slice_on(placed.host, profile)
        if kind is None:
            yield Finding(
                (*placed.path, "host"),
                f"GPUs of host {placed.host.name!r} have no MIG profile {profile!r}; "
                "expected a host that can be cut so",
            )
        elif given not in kind.starts:
            yield Finding(
                (*placed.path, "slot"),
                f"{'no slot' if given is None else f'slot {given}'} for a slice {profile!r}; "
                f"expected one of {', '.join(map(str, kind.starts))}",
            )


def mig_layout(reading: Reading) -> Iterator[Finding]:
    """Require that MIG slices of a GPU do not overlap, and that nothing else is on that GPU."""
    if not reading.sliced:
        return
    on_gpu: defaultdict[tuple[str, int], list[PlacedTask]] = defaultdict(list)
    for placed in reading.placed_tasks():
        for gpu in placed.task.gpus:
            on_gpu[placed.host.name, gpu].append(placed)
    for (name, gpu), tasks in on_gpu.items():
        slices = [task for task in tasks if task.group.mig is not None]
        if not slices:
            continue
        where = f"GPU {gpu} of host {name!r}"
        if len(slices) < len(tasks):
            other = next(task for task in tasks if task.group.mig is None)
            yield Finding(
                (*other.path, "gpus"),
                f"{where} holds MIG slices, and this task is none; expected only slices there",
            )
        taken: set[int] = set()
        compute = media = 0
        for task in slices:
            kind = slice_on(task.host, task.group.mig or "")
            if kind is None or task.task.slot is None:
                continue
            mine = set(range(task.task.slot, task.task.slot + kind.size))
            compute, media = compute + kind.compute, media + kind.media
            if taken & mine or compute > COMPUTE_SLICES or media > 1:
                problem = (
                    f"overlaps another at memory slice {min(taken & mine)}"
                    if taken & mine
                    else "is one compute slice or media extension too many"
                )
                yield Finding(
                    (*task.path, "slot"),
                    f"slice {task.group.mig!r} of {where} {problem}; "
                    "expected slices that a GPU can hold together",
                )
            taken |= mine


def gpu_memory(reading: Reading) -> Iterator[Finding]:
    """Require that all tasks on a GPU use at most its memory, and that it is known if any is asked.

    What stays where it runs has been checked with the round.
    """
    used: defaultdict[tuple[str, int], int] = defaultdict(int)
    last: dict[tuple[str, int], PlacedTask] = {}
    asking = reading.held is not None or reading.parted
    for placed in reading.held_tasks() if asking else ():
        for gpu in placed.task.gpus if placed.group.gpu_memory else ():
            used[placed.host.name, gpu] += placed.group.gpu_memory
            last[placed.host.name, gpu] = placed
    for (name, gpu), amount in used.items():
        has = last[name, gpu].host.hardware.gpu_memory
        if has is None or amount > has:
            yield Finding(
                (*last[name, gpu].path, "gpus"),
                f"tasks on GPU {gpu} of host {name!r} use {memory_in_gi(amount)} of its memory "
                "together; expected "
                + ("GPUs whose memory is known" if has is None else f"at most {memory_in_gi(has)}"),
            )


RULES_OF_GPU_PARTS: tuple[Rule[Reading], ...] = (
    Rule("slot", slot),
    Rule("mig_layout", mig_layout),
    Rule("gpu_memory", gpu_memory),
)
