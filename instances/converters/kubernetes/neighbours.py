"""What other pods forbid a waiting one: affinity, anti-affinity and spread, as far as a round can.

Bound pods exclude nodes, or require some; pods of the job itself are together or apart; other jobs
that wait are apart by a label. What is more than that stays told.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeAlias

from placewright.instances.converters.kubernetes.eligibility import (
    State,
    movable,
    selects,
    state_of,
)
from placewright.instances.converters.kubernetes.jobs import Ask, Head
from placewright.instances.converters.kubernetes.ledger import BY_OTHER_PODS
from placewright.instances.converters.kubernetes.nodes import HOSTNAME, Levels
from placewright.instances.converters.kubernetes.records import (
    LabelSelector,
    Node,
    Pod,
    PodTerm,
    Spread,
)
from placewright.instances.converters.support.live import Condition
from placewright.instances.documents.arrangement import AntiAffinity, Apart
from placewright.instances.documents.caveats import CAVEATS, annotation_of, caveats_of

AFFINITY, ANTI_AFFINITY, SPREAD = BY_OTHER_PODS
_Pair: TypeAlias = tuple[str, str]


class _Domains:
    """The domains of a label key: the nodes of each of its values."""

    def __init__(self, nodes: Mapping[str, Node], key: str) -> None:
        of = ((name, node.metadata.labels.get(key, "")) for name, node in nodes.items())
        is_host = key == HOSTNAME
        self.of = {name: value or name for name, value in of if value or is_host}
        self.nodes: dict[str, list[str]] = {}
        for name, value in self.of.items():
            self.nodes.setdefault(value, []).append(name)
        self.labelled = frozenset(self.of)

    def inside(self, values: Collection[str]) -> frozenset[str]:
        """Return the nodes that are in one of some domains."""
        if 2 * len(values) <= len(self.nodes):
            return frozenset(name for value in values for name in self.nodes.get(value, ()))
        return self.labelled - self.inside(self.nodes.keys() - values)


@dataclass(slots=True)
class _Counts:
    """How many pods each domain has that a spread counts."""

    domains: _Domains
    of: dict[str, int]
    _free: dict[tuple[bool, bool], frozenset[str]] = field(default_factory=dict)

    def free(self, own: bool, term: Spread, *, together: bool) -> frozenset[str]:
        """Return the nodes where a pod may be added; any that counts for several `together`."""
        if (own, together) not in self._free:
            fewest = 0 if len(self.of) < term.minDomains else min(self.of.values(), default=0)
            most = term.maxSkew + fewest - own
            values = {value for value, number in self.of.items() if together or number <= most}
            self._free[own, together] = self.domains.inside(values)
        return self._free[own, together]


@dataclass(slots=True)
class _Meant:
    """Pods that a term means: bound ones, and those that wait; what else is known of them."""

    bound: list[Pod]
    waiting: list[Pod]
    outside: frozenset[str] | None = None
    apart: bool | None = None

    @property
    def hosts(self) -> set[str]:
        """Nodes of the bound ones."""
        return {pod.spec.nodeName or "" for pod in self.bound}


@dataclass(slots=True)
class _Found:
    """What the rules of one job come to; `told` are those that are not obeyed in full."""

    asks: list[Ask]
    head: Head
    told: set[str] = field(default_factory=set)
    own: dict[str, int] = field(default_factory=dict)

    def be_apart(self, rule: str, level: str | None, most: int) -> None:
        """Let at most so many tasks be in a domain, if all tasks ask the same."""
        first = self.asks[0]
        had = first.apart
        if level is None or len(set(self.asks)) > 1 or (had and had.level != level):
            self.told.add(rule)
        else:
            apart = Apart(level=level, most=min(most, had.most if had else most))
            self.asks = [replace(first, apart=apart)] * len(self.asks)

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


class Neighbours:
    """All pods of a dump, and where they are.

    `movable`: whether running pods may be moved: where those are is no rule then. `gangs`: waiting
    pods of each job, by the key of each pod.
    """

    def __init__(
        self,
        nodes: Mapping[str, Node],
        levels: Levels,
        all_pods: Iterable[Pod],
        gangs: Mapping[tuple[str, str], Sequence[Pod]],
        namespaces: Mapping[str, Mapping[str, str]],
        *,
        movable: bool,
    ) -> None:
        self._nodes, self._levels, self._movable = nodes, levels, movable
        self._namespaces, self._gangs = namespaces, gangs
        self._all = [pod for pod in all_pods if self._counts_for(pod)]
        self._domains_of: dict[str, _Domains] = {}
        self._level_of: dict[str, str | None] = {}
        self._meaning: dict[str, _Meant] = {}
        self._texts: dict[int, str] = {}
        self._kept: dict[tuple[Ask, tuple[Condition, ...], str, frozenset[str]], Ask] = {}
        self._counted: dict[object, _Counts] = {}

    def apply(self, head: Head, mine: Sequence[Pod], asks: Sequence[Ask]) -> tuple[Head, list[Ask]]:
        """Return a job with the rules of its waiting pods; obeyed ones are no caveats any more."""
        found = _Found(list(asks), head)
        done: dict[tuple[int, Ask], Ask] = {}
        for at, pod in enumerate(mine):
            before = id(pod), found.asks[at]
            if before not in done:
                self._one(found, at, mine)
                done[before] = found.asks[at]
            found.asks[at] = done[before]
        for rule in (ANTI_AFFINITY, AFFINITY, SPREAD):
            self._together(found, mine, rule)
            spaces = (one.namespaceSelector for pod in mine for one in _terms(pod, rule))
            if not self._namespaces and any(one not in (None, LabelSelector()) for one in spaces):
                found.told.add(rule)
        left = [one for one in caveats_of(head.ids) if one.rule not in BY_OTHER_PODS]
        left += [BY_OTHER_PODS[rule].caveat() for rule in sorted(found.told)]
        if not left and CAVEATS not in head.ids:
            return found.head, found.asks
        ids = {key: text for key, text in head.ids.items() if key != CAVEATS}
        return replace(found.head, ids={**ids, **annotation_of(left)}), found.asks

    def keep_clear(self, mine: Sequence[Pod], asks: Sequence[Ask]) -> list[Ask]:
        """Return what bound pods of a job ask that may move: not where others keep them out."""
        found = _Found(list(asks), Head(""))
        for at, pod in enumerate(mine):
            self._guard(found, at, pod, {one.key for one in mine})
        return found.asks

    def _one(self, found: _Found, at: int, mine: Sequence[Pod]) -> None:
        pod = mine[at]
        self._guard(found, at, pod)
        for term in _terms(pod, ANTI_AFFINITY):
            self._anti(found, at, mine, term)
        self._affinity(found, at, mine, list(_terms(pod, AFFINITY)))
        for spread in _spreads(pod):
            self._spread(found, at, mine, spread)

    def _keep(self, found: _Found, at: int, name: str, hosts: frozenset[str]) -> bool:
        """Let a task go to some hosts alone; return whether that is a rule for it."""
        ask = found.asks[at]
        key = ask, ask.conditions, name, hosts
        if key not in self._kept:
            allowed = hosts if hosts <= ask.allowed else ask.allowed & hosts
            conditions = (*ask.conditions, Condition(name, hosts))
            narrow = replace(ask, allowed=allowed, conditions=conditions)
            self._kept[key] = ask if ask.allowed <= hosts else narrow
        found.asks[at] = self._kept[key]
        return found.asks[at] is not ask

    def _guard(
        self, found: _Found, at: int, pod: Pod, own: Collection[tuple[str, str]] = ()
    ) -> None:
        """Keep a task from the domains of bound pods whose anti-affinity means its pod."""
        space, labels = pod.metadata.namespace or "", pod.metadata.labels
        anchors = [None, ("", space), *labels.items()]
        for term, meant in (one for key in anchors for one in self._guards.get(key, {}).values()):
            if not self._matches(term, meant.bound[0], pod):
                continue
            if own:
                bound = [one for one in meant.bound if one.key not in own]
                meant = _Meant(bound, [])
            narrowed = self._keep(found, at, _called(ANTI_AFFINITY, term), self._out(term, meant))
            if narrowed and self._may_move(meant):
                found.told.add(ANTI_AFFINITY)

    def _anti(self, found: _Found, at: int, mine: Sequence[Pod], term: PodTerm) -> None:
        meant = self._meant([term], mine[at])
        self._keep(found, at, _called(ANTI_AFFINITY, term), self._out(term, meant))
        if self._may_move(meant):
            found.told.add(ANTI_AFFINITY)
        if self._others_wait(found, [term], mine, mine[at]):
            if meant.apart is None:
                groups = {id(gang): gang for pod in meant.waiting for gang in [self._gang(pod)]}
                meant.apart = all(
                    self._alike(term, ANTI_AFFINITY, gang)
                    and all(self._matches(term, mine[at], pod) for pod in gang)
                    for gang in groups.values()
                )
            own = self._gang(mine[at])
            apart = meant.apart and self._alike(term, ANTI_AFFINITY, own)
            apart = apart and self._matches(term, mine[at], mine[at])
            digest = hashlib.sha256(self._key(term, mine[at]).encode()).hexdigest()[:12]
            found.keep_out(f"apart/{digest}", self._level(term) if apart else None)

    def _affinity(
        self, found: _Found, at: int, mine: Sequence[Pod], terms: Sequence[PodTerm]
    ) -> None:
        """Keep a task to the domains of pods that all of its terms mean, as kube-scheduler does."""
        if not terms:
            return
        meant = self._meant(terms, mine[at])
        waits = self._others_wait(found, terms, mine, mine[at])
        here = bool(found.own[self._key_of(terms, mine[at])])
        for term in terms:
            domains, values = self._domains(term), set[str]()
            if meant.bound:
                values = {domains.of[host] for host in meant.hosts if host in domains.of}
            elif here or waits:
                values = set(domains.nodes)
            self._keep(found, at, _called(AFFINITY, term), domains.inside(values))
        if self._may_move(meant) or (waits and not meant.bound):
            found.told.add(AFFINITY)

    def _spread(self, found: _Found, at: int, mine: Sequence[Pod], term: Spread) -> None:
        meant = self._meant([term], mine[at])
        waits = self._others_wait(found, [term], mine, mine[at])
        counts = self._counts(found.asks[at], term, mine[at], meant)
        own = self._matches(term, mine[at], mine[at])
        together = len(mine) > 1 and bool(found.own[self._key(term, mine[at])])
        free = counts.free(own, term, together=together)
        self._keep(found, at, _called(SPREAD, term), free)
        if waits or self._may_move(meant) or (together and meant.bound):
            found.told.add(SPREAD)

    def _together(self, found: _Found, mine: Sequence[Pod], rule: str) -> None:
        """Say what the pods of a job are to each other, if all say the same of each other."""
        if len(mine) < 2:
            return
        for term in {self._text(one): one for pod in mine for one in _terms(pod, rule)}.values():
            hit = [self._matches(term, mine[0], pod) for pod in mine]
            if not any(hit):
                continue
            level = self._level(term) if all(hit) and self._alike(term, rule, mine) else None
            all_of = list(_terms(mine[0], AFFINITY)) if rule == AFFINITY else [term]
            meant = self._meant(all_of, mine[0])
            if rule == ANTI_AFFINITY:
                found.be_apart(rule, level, 1)
            elif rule == AFFINITY and not meant.bound:
                found.be_together(level)
            elif isinstance(term, Spread):
                counts = self._counts(found.asks[0], term, mine[0], meant)
                most, exact = _most(len(mine), len(counts.of), term)
                if not meant.bound:
                    found.be_apart(rule, level, most)
                if not exact or (found.head.least or len(mine)) < len(mine):
                    found.told.add(rule)

    def _counts(self, ask: Ask, term: Spread, owner: Pod, meant: _Meant) -> _Counts:
        """Return how many pods of others each domain that counts has."""
        ignored = {"resource", "level", *BY_OTHER_PODS}
        ignored |= {"tolerated"} if term.nodeTaintsPolicy != "Honor" else set()
        ignored |= {"label", "affinity", "flavor"} if term.nodeAffinityPolicy == "Ignore" else set()
        rules = [one for one in ask.conditions if one.name.partition("/")[0] not in ignored]
        keys = tuple(one.topologyKey for one in _spreads(owner))
        key = self._key(term, owner), tuple(rules), keys
        if key not in self._counted:
            counted = frozenset(self._nodes).intersection(
                *(one.hosts for one in rules), *(self._domains_by(name).labelled for name in keys)
            )
            domains = self._domains(term)
            of = dict.fromkeys(sorted({domains.of[name] for name in counted}), 0)
            for pod in meant.bound:
                if pod.spec.nodeName in counted and pod.metadata.deletionTimestamp is None:
                    of[domains.of[pod.spec.nodeName]] += 1
            self._counted[key] = _Counts(domains, of)
        return self._counted[key]

    def _meant(self, terms: Sequence[PodTerm], owner: Pod) -> _Meant:
        """Return the pods that all of some terms of a pod mean."""
        key = self._key_of(terms, owner)
        if key not in self._meaning:
            found = [
                pod
                for pod in self._index.candidates(terms[0], owner)
                if all(self._matches(term, owner, pod) for term in terms)
            ]
            bound = [pod for pod in found if pod.spec.nodeName is not None]
            waiting = [pod for pod in found if pod.spec.nodeName is None]
            self._meaning[key] = _Meant(bound, waiting)
        return self._meaning[key]

    def _others_wait(
        self, found: _Found, terms: Sequence[PodTerm], mine: Sequence[Pod], owner: Pod
    ) -> bool:
        """Whether pods of other jobs wait that some terms mean; own ones are counted."""
        key = self._key_of(terms, owner)
        if key not in found.own:
            members = {pod.key: pod for pod in mine}.values()
            found.own[key] = sum(
                all(self._matches(term, owner, pod) for term in terms) for pod in members
            )
        return len(self._meant(terms, owner).waiting) > found.own[key]

    def _gang(self, pod: Pod) -> Sequence[Pod]:
        return self._gangs.get(pod.key, ())

    def _matches(self, term: PodTerm, owner: Pod, pod: Pod) -> bool:
        space, labels = pod.metadata.namespace or "", pod.metadata.labels
        if space not in _spaces(term, owner):
            named = {**self._namespaces.get(space, {}), "kubernetes.io/metadata.name": space}
            if not selects(term.namespaceSelector, named):
                return False
        mine = owner.metadata.labels
        return (
            selects(term.labelSelector, labels)
            and all(labels.get(key) == mine[key] for key in term.matchLabelKeys if key in mine)
            and all(labels.get(key) != mine[key] for key in term.mismatchLabelKeys if key in mine)
        )

    @cached_property
    def _index(self) -> _Index:
        return _Index(self._all)

    @cached_property
    def _guards(self) -> Mapping[_Pair | None, Mapping[str, tuple[PodTerm, _Meant]]]:
        """The anti-affinities of bound pods, each with the pods that have it, by what they mean."""
        found: defaultdict[_Pair | None, dict[str, tuple[PodTerm, _Meant]]] = defaultdict(dict)
        for pod in self._all:
            for term in _terms(pod, ANTI_AFFINITY) if pod.spec.nodeName is not None else ():
                key = self._key(term, pod)
                for pair in self._index.rarest(term, pod) or (None,):
                    meant = found[pair].setdefault(key, (term, _Meant([], [])))[1]
                    meant.bound.append(pod)
        return found

    def _counts_for(self, pod: Pod) -> bool:
        """Whether a pod is bound to a node of the dump, or waits."""
        is_there = state_of(pod) in (State.BOUND, State.WAITING)
        return is_there and (pod.spec.nodeName is None or pod.spec.nodeName in self._nodes)

    def _out(self, term: PodTerm, meant: _Meant) -> frozenset[str]:
        """Return the nodes that are in no domain of bound pods; those in none at all are such."""
        if meant.outside is None:
            domains = self._domains(term)
            values = {domains.of[host] for host in meant.hosts if host in domains.of}
            meant.outside = frozenset(self._nodes) - domains.inside(values)
        return meant.outside

    def _domains(self, term: PodTerm) -> _Domains:
        return self._domains_by(term.topologyKey)

    def _domains_by(self, key: str) -> _Domains:
        if key not in self._domains_of:
            self._domains_of[key] = _Domains(self._nodes, key)
        return self._domains_of[key]

    def _level(self, term: PodTerm) -> str | None:
        """Return the level whose domains are those of a label key, None if there is none."""
        key = term.topologyKey
        if key not in self._level_of:
            level, domains = self._levels.named(key), self._domains(term)
            if level in self._levels.names:
                number = len({self._levels.domain_of(name, level) for name in self._nodes})
                whole = len(domains.of) == len(self._nodes) and len(domains.nodes) == number
                level = level if whole else None
            self._level_of[key] = level
        return self._level_of[key]

    def _may_move(self, meant: _Meant) -> bool:
        return self._movable and any(map(movable, meant.bound))

    def _alike(self, term: PodTerm, rule: str, members: Sequence[Pod]) -> bool:
        """Whether there are pods, and all of them have a term."""
        text, different = self._text(term), {id(pod): pod for pod in members}.values()
        return bool(members) and all(
            any(self._text(one) == text for one in _terms(pod, rule)) for pod in different
        )

    def _text(self, term: PodTerm) -> str:
        if id(term) not in self._texts:
            self._texts[id(term)] = term.model_dump_json()
        return self._texts[id(term)]

    def _key_of(self, terms: Sequence[PodTerm], owner: Pod) -> str:
        return " ".join(self._key(term, owner) for term in terms)

    def _key(self, term: PodTerm, owner: Pod) -> str:
        """Return what is the same for all pods of which a term means the same pods."""
        keys = (*term.matchLabelKeys, *term.mismatchLabelKeys)
        labels = [owner.metadata.labels.get(key) for key in keys]
        return f"{owner.metadata.namespace} {labels} {self._text(term)}"


class _Index:
    """Pods by label, and by namespace, whose key is empty."""

    def __init__(self, all_pods: Sequence[Pod]) -> None:
        self._all = all_pods
        self._by: defaultdict[_Pair, list[Pod]] = defaultdict(list)
        for pod in all_pods:
            self._by["", pod.metadata.namespace or ""].append(pod)
            for pair in pod.metadata.labels.items():
                self._by[pair].append(pod)

    def candidates(self, term: PodTerm, owner: Pod) -> Sequence[Pod]:
        """Return pods among which are all that a term of a pod means."""
        pairs = self.rarest(term, owner)
        if pairs is None:
            return self._all
        return [pod for pair in pairs for pod in self._by.get(pair, ())]

    def rarest(self, term: PodTerm, owner: Pod) -> list[_Pair] | None:
        """Return labels of which all pods that a term means have one, None if it names none."""
        return min(_pairs(term, owner), key=self._number, default=None)

    def _number(self, pairs: Iterable[_Pair]) -> int:
        return sum(len(self._by.get(pair, ())) for pair in pairs)


def _pairs(term: PodTerm, owner: Pod) -> Iterator[list[_Pair]]:
    """Yield choices of labels, of each of which all pods that a term means have one."""
    if term.labelSelector is not None:
        for pair in term.labelSelector.matchLabels.items():
            yield [pair]
        for one in term.labelSelector.matchExpressions:
            if one.operator == "In":
                yield [(one.key, value) for value in dict.fromkeys(one.values)]
    if term.namespaceSelector is None:
        yield [("", space) for space in dict.fromkeys(_spaces(term, owner))]


def _spaces(term: PodTerm, owner: Pod) -> tuple[str, ...]:
    """Return the namespaces that a term names: the pod's own if it names none."""
    if not term.namespaces and term.namespaceSelector is None:
        return (owner.metadata.namespace or "",)
    return term.namespaces


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
