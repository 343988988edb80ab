"""List policies without state: FIFO, fit first, EASY, SJF, QSSF, EDF, SRTF, SRSF, LAS, smallest.

References
----------
Lifka, "The ANL/IBM SP scheduling system", JSSPP 1995 (EASY). Gu et al., "Tiresias", NSDI 2019
(SRTF and SRSF as baselines). Hu et al., "Characterization and prediction of deep learning
workloads in large-scale GPU datacenters", SC 2021 (QSSF).
"""

from __future__ import annotations

from placewright.rounds.policies.base import Columns, Keys, ListPolicy, by_arrival, gpu_time


def _predicted(jobs: Columns) -> Keys:
    return jobs.predicted_us


def _predicted_gpu_time(jobs: Columns) -> Keys:
    return gpu_time(jobs.predicted_us, jobs.gpus)


def _work(jobs: Columns) -> Keys:
    return jobs.work_us


def _remaining(jobs: Columns) -> Keys:
    return jobs.remaining_us


def _remaining_gpu_time(jobs: Columns) -> Keys:
    return gpu_time(jobs.remaining_us, jobs.gpus)


def _attained_gpu_time(jobs: Columns) -> Keys:
    return gpu_time(jobs.service_us, jobs.gpus)


def _deadline(jobs: Columns) -> Keys:
    return jobs.deadline_us


def _gpus(jobs: Columns) -> Keys:
    return jobs.gpus


FIFO = ListPolicy("fifo", by_arrival)
FIT_FIRST = ListPolicy("fit-first", by_arrival, skips=True)
EASY = ListPolicy("easy", by_arrival, frozenset({"predicted_us"}), skips=True, reserves=True)
SJF = ListPolicy("sjf", _work, frozenset({"work_us"}))
QSSF = ListPolicy("qssf", _predicted_gpu_time, frozenset({"predicted_us"}))
SJF_PREDICTED = ListPolicy("sjf-predicted", _predicted, frozenset({"predicted_us"}))
EDF = ListPolicy("edf", _deadline, frozenset({"deadline_us"}), skips=True)
SRTF = ListPolicy("srtf", _remaining, frozenset({"remaining_us"}), preempts=True, skips=True)
SRSF = ListPolicy(
    "srsf", _remaining_gpu_time, frozenset({"remaining_us"}), preempts=True, skips=True
)
LEAST_SERVICE = ListPolicy(
    "las", _attained_gpu_time, frozenset({"service_us"}), preempts=True, skips=True
)
SMALLEST = ListPolicy("smallest", _gpus, preempts=True, skips=True)

LISTS = {
    policy.name: policy
    for policy in (
        FIFO,
        FIT_FIRST,
        EASY,
        SJF,
        SJF_PREDICTED,
        QSSF,
        EDF,
        SRTF,
        SRSF,
        LEAST_SERVICE,
        SMALLEST,
    )
}
