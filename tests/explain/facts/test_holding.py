"""Who holds what, as arrays, beside what is read off the documents."""

from __future__ import annotations

from random import Random

import numpy as np

from fuzz.play import read
from fuzz.policies.gang import POLICY
from fuzz.policy import TooManyPlansError
from placewright.explain.facts.fact import Situation, hosts_for, taken_by
from placewright.explain.facts.gang import runs
from placewright.instances.derived.hardware import Hardware, hardware
from placewright.instances.derived.names import AllowedHosts
from placewright.instances.derived.ranges import expand
from placewright.instances.documents.option import TaskGroup
from placewright.instances.documents.round import Round


def rounds() -> list[Round]:
    found = []
    for seed in range(60):
        try:
            found.append(read(POLICY.draw(Random(seed))))
        except TooManyPlansError:
            continue
    return found


def could_hold(name: str, has: Hardware, asked: TaskGroup) -> bool:
    amounts = {"cpu": asked.cpu, "memory": asked.memory, **asked.resources}
    return (
        (asked.hosts is None or name in {h for one in asked.hosts for h in expand(one)})
        and (asked.gpu_models is None or has.gpu_model in asked.gpu_models)
        and has.gpus * 1000 >= asked.gpu
        and all(has.capacity.get(name, 0) >= amount for name, amount in amounts.items())
    )


def test_hosts_that_could_hold_a_task_and_what_is_held_on_them() -> None:
    some = held = 0
    for round_ in rounds():
        situation = Situation(round_)
        holding = situation.holding(runs, taken_by)
        hosts = {name: hardware(e) for e in round_.cluster.hosts for name in expand(e.name)}
        for group in (g for job in round_.jobs for o in job.options for g in o.groups):
            able = hosts_for(situation.cluster, AllowedHosts(round_.host_sets), group)
            assert able.tolist() == [could_hold(name, has, group) for name, has in hosts.items()]
            some += 0 < able.sum() < len(hosts)
            names = {name for name, here in zip(hosts, able.tolist(), strict=True) if here}
            milli, cores, there = holding.on(able)
            for j, job in enumerate(holding.jobs):
                assert job.running is not None
                groups = job.options[job.running.option].groups
                tasks = [task for task in job.running.tasks if task.host in names]
                assert there[j] == bool(tasks)
                assert milli[j] == sum(groups[task.group].gpu for task in tasks)
                assert cores[j] == sum(groups[task.group].cpu for task in tasks)
                held += bool(tasks)
    assert some > 20
    assert held > 50


def test_nobody_holds_by_a_plan_where_there_is_none() -> None:
    for round_ in rounds()[:10]:
        holding = Situation(round_).holding(runs, taken_by)
        assert not np.any(holding.taken)
        assert [job.name for job in holding.jobs] == [j.name for j in round_.jobs if j.running]
