"""Ledger of fields: what becomes of each field of the objects that a reader takes.

A field is read, has no effect on placement, or is told: a rule that the round cannot say, which the
job or host that carries it has as a caveat. A field that is in no table is told as unknown, so that
no release of a source adds a rule in silence.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple, TypeAlias, TypeVar

from placewright.instances.converters.bookkeeping import Bookkeeping
from placewright.instances.documents.caveats import UNKNOWN_FIELD, Caveat
from placewright.instances.errors import printable

_K = TypeVar("_K")
_Key = TypeVar("_Key")
_EFFECTS = "NoSchedule PreferNoSchedule NoExecute"
_STOPS = "None Hold HoldAndDrain"
_STATES = """
    ALLOCATED BLOCKED CLOUD COMPLETING DOWN DRAIN DRAINED DRAINING DYNAMIC_FUTURE DYNAMIC_NORM ERROR
    EXTERNAL FAIL FAILING FUTURE IDLE INVALID INVALID_REG MAINT MAINTENANCE MIXED NOT_RESPONDING
    NO_RESPOND PERFCTRS PLANNED POWERED_DOWN POWERING_DOWN POWERING_UP POWER_DOWN POWER_DRAIN
    POWER_UP REBOOT_CANCELED REBOOT_ISSUED REBOOT_REQUESTED RESERVED RESUME UNDRAIN UNKNOWN
"""
WORDS: Mapping[str, str] = {
    "nodes state": f"{_STATES} {_STATES.lower()}",
    "nodes state_flags": f"{_STATES} {_STATES.lower()}",
    "jobs job_state": """
        BOOT_FAIL CANCELLED COMPLETED COMPLETING CONFIGURING DEADLINE FAILED LAUNCH_FAILED NODE_FAIL
        OUT_OF_MEMORY PENDING POWER_UP_NODE PREEMPTED RECONFIG_FAIL REQUEUED REQUEUE_FED
        REQUEUE_HOLD RESIZING RESV_DEL_HOLD REVOKED RUNNING SIGNALING SPECIAL_EXIT STAGE_OUT STOPPED
        SUSPENDED TIMEOUT UPDATE_DB
    """,
    "jobs shared": "none shared oversubscribe user mcs topo",
    "Taints.effect": _EFFECTS,
    "taints.effect": _EFFECTS,
    "tolerations.effect": _EFFECTS,
    "tolerations.operator": "Exists Equal",
    "initContainers.restartPolicy": "Always OnFailure Never",
    "ontainers.ports.protocol": "TCP UDP SCTP",
    "topologySpreadConstraints.nodeAffinityPolicy": "Honor Ignore",
    "topologySpreadConstraints.nodeTaintsPolicy": "Honor Ignore",
    "topologySpreadConstraints.whenUnsatisfiable": "DoNotSchedule ScheduleAnyway",
    "pods status.phase": "Pending Running Succeeded Failed Unknown",
    "spec.preemptionPolicy": "Never PreemptLowerPriority",
    "classes preemptionPolicy": "Never PreemptLowerPriority",
    "spec.preemptibility": "preemptible non-preemptible",
    "networkTopology.mode": "hard soft",
    "members.type": "Node HyperNode",
    "spec.stopPolicy": _STOPS,
    "preemption.reclaimWithinCohort": "Never LowerPriority Any",
    "preemption.withinClusterQueue": "Never LowerPriority LowerOrNewerEqualPriority",
}
"""Of fields that have one of a few words, by the ends of their paths; any other word is told."""

NO_NUMBERS = frozenset({2**32 - 2, 2**32 - 1, 2**64 - 2, 2**64 - 1})
"""What Slurm has for numbers that are not set, and for no limit; some dialects write them out."""

MAX_UNKNOWN = 5
"""Unknown fields that are named together."""

_MAX_PATH = 200


def expanded(paths: str) -> list[str]:
    """Return paths, of which some share what is before a parenthesis."""
    return re.sub(
        r"(\S+)\(([^()]*)\)",
        lambda match: " ".join(f"{match[1]}{path}" for path in match[2].split()),
        paths,
    ).split()


class Use(Enum):
    """What becomes of a field that no rule is told of."""

    READ = "read"
    NO_EFFECT = "no effect on placement"

    __hash__ = object.__hash__  # that of Enum is slow, and each field is looked up by it


class Rule(NamedTuple):
    """A rule that is told: the name by which it is accepted, its words, whether it can forbid."""

    name: str
    text: str
    hard: bool = True

    def caveat(self) -> Caveat:
        """Return it as a caveat of a job or host."""
        return Caveat(rule=self.name, text=self.text, hard=self.hard)


OTHERWISE = ""
"""Stands for all values that are not named."""

Told: TypeAlias = Rule | Mapping[str, Rule | Use | None]
"""A rule; or rules by the value of the field, None for a value that has no effect.

Of an amount, `gres/shard=2` or `{"type": "gres", "name": "shard", "count": 2}`, the value is what
it is of, without a model: `gres/shard`.
"""


class _ByValue(NamedTuple):
    rules: Mapping[str, Rule | Use | None]
    use: Use = Use.NO_EFFECT

    def use_of(self, value: Any) -> Rule | Use:
        """Return the rule that a value, or the number or texts that it wraps, stands for."""
        number = value.get("number") if isinstance(value, dict) else value
        texts = map(_word, number if isinstance(number, list) else str(number).split(","))
        found = [self.rules.get(text, self.rules.get(OTHERWISE)) for text in texts]
        use = Use.READ if Use.READ in found else self.use
        return next((rule for rule in found if isinstance(rule, Rule)), use)


def _word(value: Any) -> str:
    amount = isinstance(value, dict)
    text = "/".join(filter(None, map(str, map(value.get, ("type", "name"))))) if amount else value
    name, given, _ = str(text).partition("=")
    return name.partition(":")[0] if amount or given else name


_Table: TypeAlias = dict[str, "Use | Rule | _ByValue | _Table"]


@dataclass(slots=True)
class Ledger:
    """The table of one kind of object; a path stands for all that is below it.

    Attributes
    ----------
    kind
        As the bookkeeping calls such objects.
    read, no_effect
        Paths, such as `spec.nodeName`, separated by white space; lists on the way have no index,
        and `spec.(nodeName priority)` are two.
    told
        Rules by path.
    """

    kind: str
    read: str
    no_effect: str
    told: Mapping[str, Told] = field(default_factory=dict)
    table: _Table = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        """Put all paths into one tree."""
        for path, use in self.uses():
            *above, last = path.split(".")
            at = self.table
            for name in above:
                below = at.setdefault(name, {})
                if not isinstance(below, dict):
                    raise TypeError(f"{self.kind}: {path} is below another path of the table")
                at = below
            if last in at:
                raise ValueError(f"{self.kind}: {path} is in the table twice")
            at[last] = use if isinstance(use, Use | Rule) else _ByValue(use)
            known = [w for end, w in WORDS.items() if f"{self.kind} {path}".endswith(end)]
            if known:
                other = Rule("unknown-word", f"a word in {path} that is not known is not read")
                own: Mapping[str, Rule | Use | None] = {} if isinstance(use, Use | Rule) else use
                rules = {**dict.fromkeys(known[0].split()), OTHERWISE: other, **own}
                at[last] = _ByValue(rules, use if isinstance(use, Use) else Use.NO_EFFECT)

    def uses(self) -> Iterator[tuple[str, Use | Told]]:
        """Yield each path of the table, and what becomes of it."""
        for path in expanded(self.read):
            yield path, Use.READ
        for path in expanded(self.no_effect):
            yield path, Use.NO_EFFECT
        yield from self.told.items()

    def knows(self, path: str) -> bool:
        """Whether a field is in the table: itself, one above it, or some below it."""
        at: Any = self.table
        for name in path.split("."):
            if not isinstance(at, dict):
                return True
            if name not in at:
                return False
            at = at[name]
        return True


@dataclass(slots=True)
class Reading:
    """The objects of one kind, gone through: which fields of the table they have, what is told.

    Attributes
    ----------
    seen
        Paths of the table that some object says something at, by what becomes of them.
    told
        Objects by the rule that is told of them.
    unknown
        Objects by the field that is in no table.
    """

    ledger: Ledger
    seen: dict[Use, set[str]] = field(default_factory=lambda: {use: set() for use in Use})
    told: Counter[Rule] = field(default_factory=Counter)
    unknown: Counter[str] = field(default_factory=Counter)

    def take(self, raw: Any) -> tuple[Caveat, ...]:
        """Go through an object as plain values, and return its caveats.

        Null, an empty text, list or object, false and 0 say nothing.
        """
        rules: dict[Rule, None] = {}
        unknown: dict[str, None] = {}
        if isinstance(raw, dict):
            self._go(raw, self.ledger.table, "", rules, unknown)
        self.told.update(list(rules))
        self.unknown.update(list(unknown))
        found = tuple(rule.caveat() for rule in rules)
        return (*found, _unknown(unknown)) if unknown else found

    def line(self) -> str:
        """Return a line about the fields, such as "fields of pods: 31 read, 40 of no effect"."""
        read, other = len(self.seen[Use.READ]), len(self.seen[Use.NO_EFFECT])
        parts = [f"fields of {self.ledger.kind}: {read} read, {other} of no effect on placement"]
        parts += [f"{rule.text} ({count:,})" for rule, count in sorted(self.told.items())]
        if self.unknown:
            parts.append(_unknown(self.unknown).text)
        return "; ".join(parts)

    def _go(
        self,
        values: Mapping[str, Any],
        table: _Table,
        path: str,
        rules: dict[Rule, None],
        unknown: dict[str, None],
    ) -> None:
        """Note what becomes of each field of an object, and of those below it."""
        seen = self.seen
        for name, value in values.items():
            if not value:
                continue
            use = table.get(name)
            if isinstance(use, Use):
                seen[use].add(f"{path}{name}")
                continue
            if not isinstance(value, str) and _says_nothing(value):
                continue
            if isinstance(use, dict):
                for part in value if isinstance(value, list) else [value]:
                    if isinstance(part, dict):
                        self._go(part, use, f"{path}{name}.", rules, unknown)
                    elif not _says_nothing(part):
                        unknown[f"{path}{name}"] = None
                continue
            if isinstance(use, _ByValue):
                use = use.use_of(value)
            if isinstance(use, Use):
                seen[use].add(f"{path}{name}")
            elif use is None:
                unknown[f"{path}{name}"] = None
            else:
                rules[use] = None


def caveats_of_all(
    ledgers: Mapping[_K, Ledger],
    objects: Mapping[_K, Iterable[tuple[_Key, Any]]],
    book: Bookkeeping,
) -> dict[_K, dict[_Key, tuple[Caveat, ...]]]:
    """Go through all objects of some kinds, each with the key by which its caveats are found again.

    The bookkeeping has a line about the fields of each kind.
    """
    found: dict[_K, dict[_Key, tuple[Caveat, ...]]] = {}
    for kind, ledger in ledgers.items():
        if kind not in objects:
            continue
        reading, listed = Reading(ledger), found.setdefault(kind, {})
        for key, raw in objects[kind]:
            if caveats := reading.take(raw):
                listed[key] = (*listed.get(key, ()), *caveats)
        book.fields.append(reading.line())
    return found


def _unknown(paths: Iterable[str]) -> Caveat:
    named = printable(", ".join(sorted(paths)[:MAX_UNKNOWN]))[:_MAX_PATH]
    return Caveat(rule=UNKNOWN_FIELD, text=f"unknown fields ({named}) are not read", hard=False)


def _says_nothing(value: Any) -> bool:
    """Whether a value says nothing, with all that is in it.

    Slurm wraps numbers, as `{"set": false, "number": 0}`; one that is infinite limits nothing.
    """
    if not value:
        return True
    if isinstance(value, str):
        return False
    if isinstance(value, list):
        return all(map(_says_nothing, value))
    if not isinstance(value, dict):
        return isinstance(value, int | float) and value in NO_NUMBERS
    if "set" in value and "number" in value:
        return not value["set"] or bool(value.get("infinite")) or _says_nothing(value["number"])
    return all(map(_says_nothing, value.values()))
