"""How the GPUs of the tasks of a plan are joined, and how they could be on their hosts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from placewright.instances.derived.hardware import links_of_hosts
from placewright.instances.derived.ranges import expand
from placewright.instances.documents.option import TaskGroup
from placewright.instances.documents.plan import Plan, Task
from placewright.instances.documents.round import Round
from placewright.topology import GpuLinks
from placewright.topology.gpu_links import best_rings, ring_mbps


class JoinedTask(NamedTuple):
    """A task of two or more GPUs on a host whose links are known, after a round."""

    job: str
    group: TaskGroup
    task: Task
    links: GpuLinks

    @property
    def mbps(self) -> int:
        """The slowest link of the best ring through its GPUs."""
        return ring_mbps(self.links, self.task.gpus)

    @property
    def most_mbps(self) -> int:
        """The same of those GPUs of the host that are joined best."""
        return best_rings(self.links)[len(self.task.gpus)]

    @property
    def is_across(self) -> bool:
        """Whether its GPUs are of several NUMA nodes, though one would hold as many."""
        numa = self.links.numa
        nodes = {numa[gpu] for gpu in self.task.gpus if gpu < len(numa)}
        largest = max((numa.count(node) for node in nodes), default=0)
        return len(nodes) > 1 and largest >= len(self.task.gpus)


def joined_tasks(round_: Round, plan: Plan) -> Iterator[JoinedTask]:
    """Yield the tasks of two or more GPUs that run after a plan, on hosts whose links are known."""
    links = {
        host: known
        for entry, known in zip(round_.cluster.hosts, links_of_hosts(round_.cluster), strict=True)
        if known is not None
        for host in expand(entry.name)
    }
    jobs = {job.name: job for job in round_.jobs} if links else {}
    for decision in plan.decisions:
        if decision.job in jobs and decision.option is not None:
            groups = jobs[decision.job].options[decision.option].groups
            for task in decision.tasks:
                if len(task.gpus) > 1 and task.host in links:
                    yield JoinedTask(decision.job, groups[task.group], task, links[task.host])


def links_of_jobs(round_: Round, plan: Plan) -> dict[str, int]:
    """Return the Mbit/s of the worst joined task of each job that asks for links and has tasks."""
    found: dict[str, int] = {}
    for one in joined_tasks(round_, plan):
        if one.group.gpu_links is not None:
            found[one.job] = min(one.mbps, found.get(one.job, one.mbps))
    return found
