"""What hosts and GPUs have left while a plan is put together, task by task."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, product

from fuzz.book.arrangement import are_joined
from fuzz.book.facts import WHOLE, Facts, Group, Host, Place

MEDIA = 1 << 8


class Room:
    """What is left. GPUs of a host that are alike in all that any plan can tell have one `kind`.

    `kind` says whether a GPU is reserved, and which running tasks hold it before the round: those
    can stay there. With equal `kind` and equal amounts left GPUs are interchangeable, so of those
    the first ones are taken.
    """

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.left = [dict(host.has) for host in facts.hosts]
        self.gpus = [[WHOLE] * host.gpus for host in facts.hosts]
        self.memory = [[host.gpu_memory or 0] * host.gpus for host in facts.hosts]
        self.cut = [[0] * host.gpus for host in facts.hosts]
        self.parted = any(
            group.profile or group.gpu_memory
            for job in facts.jobs
            for option in job.options
            for group in option.groups
        ) or any((job.get("profile") or {}).get("memory") for job in facts.raw["jobs"])
        held: dict[tuple[int, int], list[tuple[int, int, int]]] = {}
        for job in facts.jobs:
            if job.running is not None and not job.running.pinned:
                for group, index, host, gpus, _ in job.running.places:
                    for gpu in gpus:
                        held.setdefault((host, gpu), []).append((job.number, group, index))
        linked = any(
            group.gpu_links is not None
            for job in facts.jobs
            for option in job.options
            for group in option.groups
        )
        # Where links are asked for, only a GPU that has none is like another.
        self.kind = [
            [
                (
                    gpu in host.reserved_gpus,
                    held.get((host.number, gpu)),
                    gpu if linked and host.gpu_links else None,
                )
                for gpu in range(host.gpus)
            ]
            for host in facts.hosts
        ]

    def take(self, group: Group, place: Place, sign: int = 1) -> None:
        """Take what a task needs in its place; with the sign -1 give it back."""
        _, _, h, gpus, slot = place
        for name, amount in group.wants:
            self.left[h][name] = self.left[h].get(name, 0) - sign * amount
        for gpu in gpus:
            self.gpus[h][gpu] -= sign * group.each
            self.memory[h][gpu] -= sign * group.gpu_memory
        if group.profile is not None and slot is not None:
            kind = self.facts.hosts[h].slices[group.profile]
            mask = ((1 << kind.size) - 1) << slot | (MEDIA if kind.media else 0)
            self.cut[h][gpus[0]] += sign * mask

    def holds(self, group: Group, place: Place) -> bool:
        """Whether what is left is enough for a task in a place of its host."""
        _, _, h, gpus, slot = place
        left = self.left[h]
        if any(left.get(name, 0) < amount for name, amount in group.wants):
            return False
        host = self.facts.hosts[h]
        return all(self._gpu_holds(host, gpu, group, slot) for gpu in gpus)

    def _gpu_holds(self, host: Host, gpu: int, group: Group, slot: int | None) -> bool:
        h = host.number
        if self.gpus[h][gpu] < group.each:
            return False
        if not self.parted:
            return True
        cut = self.cut[h][gpu]
        if group.profile is None:
            if cut:
                return False
            return not group.gpu_memory or (
                host.gpu_memory is not None and self.memory[h][gpu] >= group.gpu_memory
            )
        kind = host.slices.get(group.profile)
        if kind is None or slot not in kind.starts:
            return False
        if not cut and self.gpus[h][gpu] < WHOLE:
            return False
        mask = ((1 << kind.size) - 1) << slot | (MEDIA if kind.media else 0)
        return not cut & mask

    def places(self, group: Group, number: int, index: int) -> Iterator[Place]:
        """Yield where a task may arrive: every place, but of interchangeable GPUs the first."""
        for host in self.facts.hosts:
            if not host.open or (group.hosts is not None and host.number not in group.hosts):
                continue
            if group.models is not None and host.model not in group.models:
                continue
            left = self.left[host.number]
            if any(left.get(name, 0) < amount for name, amount in group.wants):
                continue
            for gpus, slot in self._gpus(group, host):
                yield number, index, host.number, gpus, slot

    def _gpus(self, group: Group, host: Host) -> Iterator[tuple[tuple[int, ...], int | None]]:
        if not group.number:
            yield (), None
            return
        if group.profile is not None:
            kind = host.slices.get(group.profile)
            for slot in () if kind is None else kind.starts:
                for gpus in self._alike(group, host, slot):
                    yield gpus, slot
            return
        for gpus in self._alike(group, host, None):
            if are_joined(group, host, gpus):
                yield gpus, None

    def _alike(self, group: Group, host: Host, slot: int | None) -> Iterator[tuple[int, ...]]:
        h = host.number
        classes: dict[object, list[int]] = {}
        for gpu in range(host.gpus):
            if gpu not in host.reserved_gpus and self._gpu_holds(host, gpu, group, slot):
                _, held, alone = self.kind[h][gpu]
                mine = (self.gpus[h][gpu], self.memory[h][gpu], self.cut[h][gpu], alone)
                classes.setdefault((mine, None if held is None else tuple(held)), []).append(gpu)
        if group.number == 1:
            for alike in classes.values():
                yield (alike[0],)
            return
        if sum(map(len, classes.values())) < group.number:
            return
        for counts in product(*(range(len(alike) + 1) for alike in classes.values())):
            if sum(counts) == group.number:
                chosen = zip(classes.values(), counts, strict=True)
                yield tuple(sorted(gpu for alike, n in chosen for gpu in alike[:n]))


def every_place(facts: Facts, group: Group, number: int, index: int) -> Iterator[Place]:
    """Yield every place of a task on any host, lawful or not."""
    for host in facts.hosts:
        kind = None if group.profile is None else host.slices.get(group.profile)
        starts: tuple[int | None, ...] = (None,) if kind is None else kind.starts
        for gpus in combinations(range(host.gpus), group.number):
            for slot in starts:
                yield number, index, host.number, gpus, slot
