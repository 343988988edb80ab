"""Compatibility: jobs can take turns on GPUs if their first options ask for the same places."""

from __future__ import annotations

from collections.abc import Hashable

from placewright.instances.documents.job import Job
from placewright.instances.documents.option import Option
from placewright.topology.units import WHOLE_GPU


def asks_whole_gpus(option: Option) -> bool:
    """Whether an option asks for GPUs, and for whole ones only."""
    return option.milli_gpu > 0 and all(
        group.mig is None and group.gpu % WHOLE_GPU == 0 for group in option.groups
    )


def grouping_key(job: Job) -> Hashable | None:
    """Return the grouping key, equal for all jobs of a group; None if this job is never in one.

    That is the first option but for names, `cpu`, `memory`, `resources`, `gpu_memory`, value and
    progress. Jobs without a profile, with an anti-affinity, or with parts of GPUs are in no group.
    """
    first = job.options[0]
    if job.profile is None or job.anti_affinity is not None or not asks_whole_gpus(first):
        return None
    return (
        first.required,
        first.hosts,
        tuple(
            (
                group.count,
                group.gpu,
                group.gpu_models,
                group.hosts,
                group.host_sets,
                group.required,
                group.preferred,
                group.slices,
                group.apart,
                group.num_hosts,
                group.communication,
            )
            for group in first.groups
        ),
    )
