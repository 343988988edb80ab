"""What other pods forbid a waiting one: affinity, anti-affinity and spread, as far as a round can.

Bound pods exclude nodes, or require some; pods of the job itself are together or apart; other jobs
that wait are apart by a label. What is more than that stays told.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from placewright.instances.converters.kubernetes import pods
from placewright.instances.converters.kubernetes.eligibility import selects
from placewright.instances.converters.kubernetes.jobs import Ask, Head
from placewright.instances.converters.kubernetes.levels import HOSTNAME, Levels
from placewright.instances.converters.kubernetes.records import (
    LabelSelector,
    Node,
    Pod,
    PodTerm,
    Spread,
)
from placewright.instances.converters.support.host_sets import Condition
from placewright.instances.documents.arrangement import AntiAffinity, Apart
from placewright.instances.documents.caveats import CAVEATS, annotation_of, caveats_of

AFFINITY, ANTI_AFFINITY, SPREAD = "pod-affinity", "pod-anti-affinity", "topology-spread"


@dataclass(slots=True)
class _Found:
    """What the rules of one job come to; `told` are those that are not obeyed in full."""

    asks: list[Ask]
    head: Head
    told: set[str] = field(default_factory=set)

    def keep(self, at: int, name: str, hosts: Iterable[str]) -> None:
        """Let a task go to some hosts alone."""
        ask, kept = self.asks[at], frozenset(hosts)
        if not ask.allowed <= kept:
            conditions = (*ask.conditions, Condition(name, kept))
            self.asks[at] = replace(ask, allowed=ask.allowed & kept, conditions=conditions)

    def be_apart(self, rule: str, level: str | None, most: int) -> None:
        """Let at most so many tasks be in a domain, if all tasks ask the same."""
        first = self.asks[0]
        had = first.apart
        if level is None or len(set(self.asks)) > 1 or (had and had.level != level):
            self.told.add(rule)
        else:
            apart = Apart(level=level, most=min(most, had.most if had else most))
            self.asks = [replace(ask, apart=apart) for ask in self.asks]

    def be_together(self, level: str | None) -> None:
        """Let all tasks be in one domain."""
        required = {self.head.required, *(ask.required for ask in self.asks)} - {None}
        if level is None or required - {level}:
            self.told.add(AFFINITY)
        else:
            self.head = replace(self.head, required=level)

    def keep_out(self, label: str, level: str | None) -> None:
        """Let other jobs of a label be in other domains."""
        had = self.head.anti_affinity
        if level is None or (had and had.label != label):
            self.told.add(ANTI_AFFINITY)
        else:
            rule = AntiAffinity(label=label, level=level)
            self.head = replace(self.head, anti_affinity=rule)


@dataclass(slots=True)
class Neighbours:
    """All pods of a dump, and where they are.

    Attributes
    ----------
    movable : bool
        Whether running pods may be moved: where those are is no rule then.
    gangs : mapping
        Waiting pods of each job that pods alone make, by the key of each pod.
    """

    nodes: Mapping[str, Node]
    levels: Levels
    all: Sequence[Pod]
    movable: bool
    namespaces: Mapping[str, Mapping[str, str]]
    gangs: dict[tuple[str, str], Sequence[Pod]] = field(default_factory=dict)
    _matching: dict[str, list[Pod]] = field(default_factory=dict)
    _guards: dict[str, tuple[list[Pod], PodTerm]] | None = None

    def apply(self, head: Head, mine: Sequence[Pod], asks: Sequence[Ask]) -> tuple[Head, list[Ask]]:
        """Return a job with the rules of its waiting pods; obeyed ones are no caveats any more."""
        found = _Found(list(asks), head)
        for at, pod in enumerate(mine):
            for guards, term in self._guarding():
                if self._matches(term, guards[0], pod):
                    found.keep(at, _called(ANTI_AFFINITY, term), self._outside(term, guards))
            for term in _terms(pod, ANTI_AFFINITY):
                self._anti(found, at, mine, term)
            for term in _terms(pod, AFFINITY):
                self._affinity(found, at, mine, term)
            for spread in _spreads(pod):
                self._spread(found, at, mine, spread)
        for rule in (ANTI_AFFINITY, AFFINITY, SPREAD):
            self._together(found, mine, rule)
            spaces = (one.namespaceSelector for pod in mine for one in _terms(pod, rule))
            if not self.namespaces and any(one not in (None, LabelSelector()) for one in spaces):
                found.told.add(rule)
        left = [
            one
            for one in caveats_of(head.ids)
            if one.rule not in {ANTI_AFFINITY, AFFINITY, SPREAD} - found.told
        ]
        ids = {key: text for key, text in head.ids.items() if key != CAVEATS}
        return replace(found.head, ids={**ids, **annotation_of(left)}), found.asks

    def _anti(self, found: _Found, at: int, mine: Sequence[Pod], term: PodTerm) -> None:
        bound, waiting = self._others(term, mine[at], mine)
        found.keep(at, _called(ANTI_AFFINITY, term), self._outside(term, bound))
        if self._may_move(bound):
            found.told.add(ANTI_AFFINITY)
        if waiting:
            apart = all(
                _alike(term, ANTI_AFFINITY, self.gangs.get(pod.key, ()))
                and all(self._matches(term, mine[at], p) for p in self.gangs[pod.key])
                for pod in (*waiting, mine[at])
            )
            digest = hashlib.sha256(_key(term, mine[at]).encode()).hexdigest()[:12]
            label = f"apart/{digest}"
            found.keep_out(label, self._level(term) if apart else None)

    def _affinity(self, found: _Found, at: int, mine: Sequence[Pod], term: PodTerm) -> None:
        bound, waiting = self._others(term, mine[at], mine)
        here = any(self._matches(term, mine[at], pod) for pod in mine)
        name = _called(AFFINITY, term)
        if bound:
            values = {self._value(term, pod.spec.nodeName or "") for pod in bound} - {""}
            found.keep(at, name, self._inside(term, values))
        elif here or waiting:
            found.keep(at, name, self._inside(term, self._domains(term)))
        else:
            found.keep(at, name, ())
        if self._may_move(bound) or (waiting and not bound):
            found.told.add(AFFINITY)

    def _spread(self, found: _Found, at: int, mine: Sequence[Pod], term: Spread) -> None:
        counts, bound, waiting = self._counts(found.asks[at], term, mine, at)
        own = self._matches(term, mine[at], mine[at])
        fewest = 0 if len(counts) < term.minDomains else min(counts.values(), default=0)
        free = {value for value, n in counts.items() if n + own - fewest <= term.maxSkew}
        if len(mine) > 1 and any(self._matches(term, mine[at], pod) for pod in mine):
            free = set(counts)
            if bound:
                found.told.add(SPREAD)
        found.keep(at, _called(SPREAD, term), self._inside(term, free))
        if waiting or self._may_move(bound):
            found.told.add(SPREAD)

    def _together(self, found: _Found, mine: Sequence[Pod], rule: str) -> None:
        """Say what the pods of a job are to each other, if all say the same of each other."""
        if len(mine) < 2:
            return
        for term in {
            one.model_dump_json(): one for pod in mine for one in _terms(pod, rule)
        }.values():
            hit = [self._matches(term, mine[0], pod) for pod in mine]
            if not any(hit):
                continue
            level = self._level(term) if all(hit) and _alike(term, rule, mine) else None
            if rule == ANTI_AFFINITY:
                found.be_apart(rule, level, 1)
            elif rule == AFFINITY and not self._others(term, mine[0], mine)[0]:
                found.be_together(level)
            elif isinstance(term, Spread):
                counts, bound, _ = self._counts(found.asks[0], term, mine, 0)
                most, exact = _most(len(mine), len(counts), term)
                if not bound:
                    found.be_apart(rule, level, most)
                if not exact:
                    found.told.add(rule)

    def _counts(
        self, ask: Ask, term: Spread, mine: Sequence[Pod], at: int
    ) -> tuple[dict[str, int], list[Pod], list[Pod]]:
        """Return how many pods each domain that counts has, and the others, bound and waiting."""
        ignored = {"resource", ANTI_AFFINITY, AFFINITY, SPREAD}
        ignored |= {"tolerated"} if term.nodeTaintsPolicy != "Honor" else set()
        ignored |= {"label", "affinity"} if term.nodeAffinityPolicy == "Ignore" else set()
        rules = [one for one in ask.conditions if one.name.partition("/")[0] not in ignored]
        keys = list(_terms(mine[at], SPREAD))
        counted = {
            name
            for name in self.nodes
            if all(name in one.hosts for one in rules)
            and all(self._value(one, name) for one in keys)
        }
        bound, waiting = self._others(term, mine[at], mine)
        bound = [pod for pod in bound if pod.metadata.deletionTimestamp is None]
        counts = dict.fromkeys((self._value(term, name) for name in sorted(counted)), 0)
        for pod in bound:
            if pod.spec.nodeName in counted:
                counts[self._value(term, pod.spec.nodeName)] += 1
        return counts, bound, waiting

    def _others(
        self, term: PodTerm, owner: Pod, mine: Sequence[Pod]
    ) -> tuple[list[Pod], list[Pod]]:
        """Return the pods of other jobs that a term of a pod means: bound ones, and waiting."""
        key = _key(term, owner)
        if key not in self._matching:
            self._matching[key] = [
                pod for pod in self.all if self._counts_for(pod) and self._matches(term, owner, pod)
            ]
        own = {pod.key for pod in mine}
        others = [pod for pod in self._matching[key] if pod.key not in own]
        bound = [pod for pod in others if pod.spec.nodeName is not None]
        return bound, [pod for pod in others if pod.spec.nodeName is None]

    def _matches(self, term: PodTerm, owner: Pod, pod: Pod) -> bool:
        space, labels = pod.metadata.namespace or "", pod.metadata.labels
        spaces = term.namespaces
        if not spaces and term.namespaceSelector is None:
            spaces = (owner.metadata.namespace or "",)
        named = {**self.namespaces.get(space, {}), "kubernetes.io/metadata.name": space}
        if space not in spaces and not selects(term.namespaceSelector, named):
            return False
        mine = owner.metadata.labels
        return (
            selects(term.labelSelector, labels)
            and all(labels.get(key) == mine[key] for key in term.matchLabelKeys if key in mine)
            and all(labels.get(key) != mine[key] for key in term.mismatchLabelKeys if key in mine)
        )

    def _guarding(self) -> Iterable[tuple[list[Pod], PodTerm]]:
        """Return the anti-affinities of bound pods, each with the pods that have it."""
        if self._guards is None:
            self._guards = {}
            for pod in self.all:
                if self._counts_for(pod) and pod.spec.nodeName is not None:
                    for term in _terms(pod, ANTI_AFFINITY):
                        guards = self._guards.setdefault(_key(term, pod), ([], term))
                        guards[0].append(pod)
        return self._guards.values()

    def _counts_for(self, pod: Pod) -> bool:
        """Whether a pod is bound to a node of the dump, or waits."""
        is_there = pods.state_of(pod) in (pods.State.BOUND, pods.State.WAITING)
        return is_there and (pod.spec.nodeName is None or pod.spec.nodeName in self.nodes)

    def _inside(self, term: PodTerm, values: Collection[str]) -> Iterator[str]:
        """Yield the nodes that are in one of some domains."""
        return (name for name in self.nodes if self._value(term, name) in values)

    def _outside(self, term: PodTerm, bound: Sequence[Pod]) -> Iterator[str]:
        """Yield the nodes that are in no domain of bound pods; those in none at all are such."""
        values = {self._value(term, pod.spec.nodeName or "") for pod in bound} - {""}
        return (name for name in self.nodes if self._value(term, name) not in values)

    def _domains(self, term: PodTerm) -> set[str]:
        return {self._value(term, name) for name in self.nodes} - {""}

    def _value(self, term: PodTerm, node: str) -> str:
        label = self.nodes[node].metadata.labels.get(term.topologyKey, "")
        return label or (node if term.topologyKey == HOSTNAME else "")

    def _level(self, term: PodTerm) -> str | None:
        """Return the level whose domains are those of a label key, None if there is none."""
        level = self.levels.named(term.topologyKey)
        if level is None or level not in self.levels.names:
            return level
        values = {self._value(term, name) for name in self.nodes}
        domains = {self.levels.domain_of(name, level) for name in self.nodes}
        return level if "" not in values and len(values) == len(domains) else None

    def _may_move(self, bound: Sequence[Pod]) -> bool:
        return self.movable and any(map(pods.movable, bound))


def _spreads(pod: Pod) -> Iterator[Spread]:
    found = pod.spec.topologySpreadConstraints
    return (one for one in found if one.whenUnsatisfiable == "DoNotSchedule")


def _terms(pod: Pod, rule: str) -> Iterator[PodTerm]:
    if rule == SPREAD:
        yield from _spreads(pod)
        return
    affinity = pod.spec.affinity
    if affinity is not None:
        found = affinity.podAffinity if rule == AFFINITY else affinity.podAntiAffinity
        yield from () if found is None else found.requiredDuringSchedulingIgnoredDuringExecution


def _alike(term: PodTerm, rule: str, members: Sequence[Pod]) -> bool:
    """Whether there are pods, and all of them have a term."""
    return bool(members) and all(term in list(_terms(pod, rule)) for pod in members)


def _key(term: PodTerm, owner: Pod) -> str:
    """Return what is the same for all pods of which a term means the same pods."""
    keys = (*term.matchLabelKeys, *term.mismatchLabelKeys)
    labels = [owner.metadata.labels.get(key) for key in keys]
    return f"{owner.metadata.namespace} {labels} {term.model_dump_json()}"


def _called(rule: str, term: PodTerm) -> str:
    return f"{rule}/{term.topologyKey}"


def _most(count: int, domains: int, term: Spread) -> tuple[int, bool]:
    """Return how many of equal pods one domain may have, and whether no other rule is needed."""
    skew = term.maxSkew
    if domains < term.minDomains:
        return skew, True
    others = max(0, domains - 1)
    most = max(1, skew if count <= skew else (count + skew * others) // max(1, domains))
    return most, domains < 2 or max(0, count - others * most) >= most - skew
