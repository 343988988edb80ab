"""Muri: interleaving of jobs that take turns at resources, ordered by SRSF or by 2D-LAS.

References
----------
Zhao et al., "Multi-resource interleaving for deep learning training", SIGCOMM 2022.
"""

from __future__ import annotations

from placewright.rounds.policies.base import Columns, GroupPolicy, Keys, gpu_time


def _remaining_gpu_time(jobs: Columns) -> Keys:
    return gpu_time(jobs.remaining_us, jobs.gpus)


def _attained_gpu_time(jobs: Columns) -> Keys:
    return gpu_time(jobs.service_us, jobs.gpus)


STAGES = ("iteration_us", "stage_0_us", "stage_1_us", "stage_2_us")
"""Columns of a trace by which groups are formed: times of an iteration, and of its stages."""

_SHORTEST, _LEAST_ATTAINED = (
    frozenset({"remaining_us", *STAGES}),
    frozenset({"service_us", *STAGES}),
)

GROUPINGS = {
    policy.name: policy
    for policy in (
        GroupPolicy("muri-s", _remaining_gpu_time, _SHORTEST),
        GroupPolicy("muri-l", _attained_gpu_time, _LEAST_ATTAINED),
        GroupPolicy("muri-s-matching", _remaining_gpu_time, _SHORTEST, merges="muri"),
        GroupPolicy("muri-l-matching", _attained_gpu_time, _LEAST_ATTAINED, merges="muri"),
    )
}
