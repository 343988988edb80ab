"""Where the GPUs of a Megatron-LM shape go, as an option of the Round document.

Rank by rank as Megatron-LM's groups ask it: a tensor group inside one NVLink domain, the stages of
a pipeline next to each other, and the replicas one after the other, so that the data-parallel rings
run across. One group of tasks says all of it: a task is a tensor group or a host's part of one, its
index (replica, stage, part) is its place in that order, and slices say what may not be torn apart.

Source: Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters Using
Megatron-LM", SC'21, section 3: takeaways 1 to 3 (tensor parallelism up to the GPUs of a server,
then pipelines).
"""

from __future__ import annotations

from placewright.instances.documents.arrangement import Communication, Slices
from placewright.instances.documents.option import Option, TaskGroup
from placewright.instances.documents.quantities import memory_text
from placewright.instances.speed_models.megatron import MIB, Shape, Transformer, faults, memory_mib

GRADIENT_BYTES = 4
"""Per parameter, as it is reduced over the replicas."""


def placed(
    model: Transformer,
    shape: Shape,
    *,
    batch: int,
    gpu_memory_mib: int,
    host_gpus: int = 8,
    nvlink: tuple[str, int] = ("host", 8),
    pipeline: str | None = None,
) -> Option:
    """Return the option that trains a model with a shape.

    `batch`: sequences of one iteration, over all replicas. `gpu_memory_mib`: memory of one GPU;
    what the shape needs of it is asked of each host, too. `host_gpus`: GPUs of a host. `nvlink`:
    the level whose domains NVLink connects, and the GPUs of one: ("host", 8), ("rack", 72).
    `pipeline`: a level of which one domain is to hold all stages of a replica; None: as close as
    ranks along the tree bring them.

    The collective is the data-parallel all-reduce of what one GPU holds, as a ring of all ranks:
    the rings of the GPUs of a tensor group run side by side, each through NICs of its own. Raises
    ValueError if the shape breaks a rule (`megatron.faults`), a tensor group does not fill its
    hosts, or pipelines are asked into a level where tensor groups need slices of another one.
    """
    level, domain_gpus = nvlink
    broken = faults(
        model, shape, batch=batch, domain_gpus=domain_gpus, gpu_memory_mib=gpu_memory_mib
    )
    if broken:
        raise ValueError("; ".join(broken))
    parts = -(-shape.tensor // host_gpus)
    each = shape.tensor // parts
    if each * parts != shape.tensor:
        raise ValueError(
            f"tensor {shape.tensor} on hosts of {host_gpus} GPUs leaves some idle; "
            f"expected a divisor or a multiple of {host_gpus}"
        )
    slices = Slices(size=parts, required=level) if parts > 1 else None
    if pipeline is not None:
        if slices is not None and pipeline != level:
            raise ValueError(
                f"pipelines inside one {pipeline} and tensor groups inside one {level} are slices "
                f"of two kinds; expected pipeline {level!r} or none"
            )
        slices = Slices(size=shape.pipeline * parts, required=pipeline)
    held = model.parameters * GRADIENT_BYTES // (shape.tensor * shape.pipeline)
    group = TaskGroup(
        name="ranks",
        count=shape.data * shape.pipeline * parts,
        gpu=each,
        gpu_memory=memory_text(memory_mib(model, shape)),
        slices=slices,
        communication=Communication(data_mib=-(-held // MIB)),
    )
    name = f"t{shape.tensor}-p{shape.pipeline}-d{shape.data}"
    return Option(name=name, groups=(group,))
