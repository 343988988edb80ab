"""Whether hosts hold the jobs on them: GPUs, shares, MIG slices and other resources."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

from placewright.formulations.interleaving.problem.compile import merged_task_groups
from placewright.instances.checks.round import hosts_by_name
from placewright.instances.derived.running_groups import running_groups
from placewright.instances.documents.option import TaskGroup
from placewright.rounds.displacement.changes import Changes, PlacedTask
from placewright.topology.mig import COMPUTE_SLICES, NO_MIG, PRODUCTS, SLICES
from placewright.topology.units import WHOLE_GPU


class HostUse:
    """What jobs hold on hosts after a candidate, were some of them back and others not there."""

    def __init__(self, changes: Changes) -> None:
        self._changes, self._round = changes, changes.round
        self._hardware = hosts_by_name(changes.round.cluster)
        self._groups = [set(group.members) for group in changes.candidate.groups]

    def exceeds(self, back: Sequence[int], gone: set[int], hosts: set[str]) -> bool:
        """Whether some of these hosts do not hold all jobs, with `back` at home and not `gone`."""
        changes = self._changes
        places = {j: changes.places(j) for h in hosts for j in changes.by_host[h] if j not in gone}
        places |= {j: changes.home(j) for j in back}
        left: dict[str, dict[str, int]] = {
            host: dict(self._hardware[host].capacity) for host in hosts
        }
        gpus: defaultdict[tuple[str, int], list[tuple[TaskGroup, int | None]]] = defaultdict(list)
        for members in self._units(places, set(back)):
            for task in places[members[0]]:
                if task.host not in hosts:
                    continue
                group = self._merged(members, task)
                asked = {"cpu": group.cpu, "memory": group.memory, **group.resources}
                for name, amount in asked.items():
                    if amount:
                        left[task.host][name] = left[task.host].get(name, 0) - amount
                        if left[task.host][name] < 0:
                            return True
                for gpu in task.gpus:
                    gpus[task.host, gpu].append((group, task.slot))
        return any(self._gpu_exceeded(host, held) for (host, _), held in gpus.items())

    def touches_parts(self, victim: int) -> bool:
        """Whether a victim is on a GPU of which it or a guaranteed job takes memory or a slice."""
        changes = self._changes
        on_gpu = {
            (task.host, gpu): changes.group(j, task)
            for j in changes.guaranteed & changes.new.keys()
            for task in changes.new[j]
            for gpu in task.gpus
        }
        return any(
            _is_part(changes.group(victim, task)) or _is_part(on_gpu[task.host, gpu])
            for task in changes.home(victim)
            for gpu in task.gpus
            if (task.host, gpu) in on_gpu
        )

    def _gpu_exceeded(self, host: str, held: list[tuple[TaskGroup, int | None]]) -> bool:
        if sum(min(group.gpu, WHOLE_GPU) for group, _ in held) > WHOLE_GPU:
            return True
        if sum(group.gpu_memory for group, _ in held) > (self._hardware[host].gpu_memory or 0):
            return True
        if all(group.mig is None for group, _ in held):
            return False
        product, taken, compute, media = self._hardware[host].product, 0, 0, 0
        for group, slot in held:
            if group.mig is None or slot is None or product == NO_MIG:
                return True
            kind = SLICES[PRODUCTS[product].profiles[group.mig]]
            mask = ((1 << kind.size) - 1) << slot
            if taken & mask:
                return True
            taken, compute, media = taken | mask, compute + kind.compute, media + kind.media
        return compute > COMPUTE_SLICES or media > 1

    def _units(
        self, places: Mapping[int, Sequence[PlacedTask]], back: set[int]
    ) -> Iterator[tuple[int, ...]]:
        """Yield the groups of jobs that take turns in these places, and jobs alone."""
        home = {j for j in places if j in back or j not in self._changes.new}
        groups = [group & (places.keys() - back) for group in self._groups]
        groups = [group for group in groups if group - home and len(group) > 1]
        taken: set[int] = set().union(*groups)
        groups += [set(mine) & home - taken for mine in self._ran_together]
        alone = set(places).difference(*groups)
        yield from (tuple(sorted(group)) for group in groups if group)
        yield from ((j,) for j in sorted(alone))

    @cached_property
    def _ran_together(self) -> list[tuple[int, ...]]:
        return running_groups(self._round)

    def _merged(self, members: tuple[int, ...], task: PlacedTask) -> TaskGroup:
        if len(members) == 1:
            return self._changes.group(members[0], task)
        jobs = [self._round.jobs[j] for j in members]
        return merged_task_groups(jobs, self._round.sharing)[task.group]


def _is_part(group: TaskGroup) -> bool:
    return group.mig is not None or bool(group.gpu_memory)
