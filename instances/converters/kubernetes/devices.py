"""Devices (DRA): slices give a node its GPUs, claims say who holds or wants how many of them.

Whole GPUs of a driver count as an accelerator, `dra/DRIVER`, of nodes and pods; what else is
claimed stays in the pods, and is told.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from placewright.instances.converters.bookkeeping import Bookkeeping
from placewright.instances.converters.kubernetes.ledger import (
    CLAIM,
    CLAIM_TEMPLATE,
    DEVICE_CLASS,
    DEVICE_LEDGERS,
    SLICE,
)
from placewright.instances.converters.kubernetes.nodes import (
    DEVICE_MODEL,
    DEVICES,
    MODEL_LABELS,
    accelerators_in,
)
from placewright.instances.converters.kubernetes.sources import (
    NODE,
    POD,
    Kind,
    Source,
    key_of,
    name_of,
)
from placewright.instances.converters.ledger import Ledger, expanded
from placewright.instances.errors import InvalidInputError

_GPU = "gpu."
_STATUSES = "resourceClaimStatuses"
_TEXTS = {str: "a text", int: "a whole number", list: "a list", dict: "an object"}
_TYPES = {"attributes": dict, "count": int, "generation": int, "selectors": list, "taints": list}
_DEEPER = (
    "spec.devices.attributes.*.string",
    "spec.devices.basic.attributes.*.string",
    "spec.selectors.cel.expression",
)
"""What is read below the paths of the tables."""

_PLAIN = {"name", "exactly", "deviceClassName", "count", "allocationMode"}
_COUNT = "nvidia.com/gpu.count"
_WIRED = re.compile(r"(?:^|/)(?:pcieRoot|numa(?:Node)?$|nvlink|xgmi)", re.IGNORECASE)
_SOME = re.compile(r"[1-9][0-9]{0,5}")
_DRIVER = re.compile(r"""device\.driver\s*==\s*['"]([\w.-]+)['"]""")
_CLASS = re.compile(
    r"""\s*device\.driver\s*==\s*['"]([\w.-]+)['"]\s*"""
    r"""(?:&&\s*device\.attributes\[['"][\w.-]+['"]\]\.type\s*==\s*['"]gpu['"]\s*)?"""
)

Sources: TypeAlias = Mapping[Kind, Sequence[Source]]


class _Device(NamedTuple):
    driver: str
    pool: str
    name: str


def with_devices(sources: Sources, book: Bookkeeping) -> Sources:
    """Return sources whose nodes have the GPUs of their slices, and pods ask what they claim.

    Raises `InvalidInputError`: a value that is read of a slice, claim or class is none that
    Kubernetes would have.
    """
    if not sources.get(SLICE):
        return sources
    right = {
        kind: [one for one in sources.get(kind, ()) if _is_right(one, ledger, book)]
        for kind, ledger in DEVICE_LEDGERS.items()
    }
    sources = {**sources, **right}
    for host in _wired([one.raw for one in sources.get(SLICE, ())]):
        book.cannot_say("PCIe roots, NUMA nodes and NVLink of GPUs, which slices tell apart", host)
    reading = _Reading(sources)
    return {
        **sources,
        POD: [reading.pod(one) for one in sources.get(POD, ())],
        NODE: [reading.node(one) for one in sources.get(NODE, ())],
    }


def _is_right(source: Source, ledger: Ledger, book: Bookkeeping) -> bool:
    """Whether all that is read of an object has its type; if not, it is refused and left out."""
    read = [path for path in expanded(ledger.read) if path.startswith(("spec.", "status."))]
    wrong = (w for path in (*read, *_DEEPER) for w in _wrong(source.raw, path.split("."), ()))
    for path, value, kind in wrong:
        expected, place = f"expected {_TEXTS[kind]}", (*source.path, *path)
        book.refuse(InvalidInputError(expected, file=source.file, path=place, value=value))
        fields = ".".join(part for part in path if isinstance(part, str))
        book.leave(ledger.kind, f"cannot be read: {fields}: {expected}", name_of(source))
        return False
    return True


def _wrong(
    value: Any, names: Sequence[str], at: tuple[str | int, ...]
) -> Iterator[tuple[tuple[str | int, ...], Any, type]]:
    """Yield the values at a path, or on its way, that have another type than there should be."""
    if isinstance(value, list) and names:
        for i, one in enumerate(value):
            yield from _wrong(one, names, (*at, i))
    elif value is not None:
        kind = dict if names else _TYPES.get(str(at[-1]), str)
        if type(value) is not kind:
            yield at, value, kind
        elif isinstance(value, dict) and names:
            for key in value if names[0] == "*" else names[:1]:
                yield from _wrong(value.get(key), names[1:], (*at, key))


class _Class(NamedTuple):
    driver: str
    whole: bool
    extended: str


class _Wanted(NamedTuple):
    """GPUs that a claim is of, by resource; `told`: it is of more than these, or bound by more."""

    gpus: Counter[str]
    told: bool = False


class _Reading:
    def __init__(self, sources: Sources) -> None:
        nodes = {name_of(one): one.raw for one in sources.get(NODE, ())}
        self.claims = {key_of(one): one.raw for one in sources.get(CLAIM, ())}
        templates = sources.get(CLAIM_TEMPLATE, ())
        self.templates = {key_of(one): _at(one.raw, "spec") for one in templates}
        self.classes = {name_of(one): _class(one.raw) for one in sources.get(DEVICE_CLASS, ())}
        self.gpus = dict(_gpus([one.raw for one in sources.get(SLICE, ())]))
        self.of_host: defaultdict[str, dict[_Device, str | None]] = defaultdict(dict)
        for device, (host, model) in self.gpus.items():
            self.of_host[host][device] = model
        self.plugin = {name: found for name, raw in nodes.items() if (found := _plugin(raw))}
        self.apart = {name for name in self.plugin if self._are_apart(nodes[name], name)}
        self.names = dict(self._names())
        self.users = Counter(
            key for one in sources.get(POD, ()) for key, _ in _claims(one.raw) if key[1]
        )
        self.allocated = {one for key in self.claims for one in self._devices(key)}
        self.parts = Counter(one[:2] for one in self.allocated if one not in self.gpus)
        self.given: set[tuple[str, str]] = set()
        self.held: set[_Device] = set()

    def pod(self, source: Source) -> Source:
        """Return a pod that asks for GPUs what it claims; sharers of a claim ask once."""
        host, claims = _text(source.raw, "spec", "nodeName"), _claims(source.raw)
        bound = bool(host) and _text(source.raw, "status", "phase") not in ("Succeeded", "Failed")
        if host and not bound:
            return source
        self.held |= set(self._devices(_extended(source.raw)) if bound else ())
        known = [self._held(k, host) if bound else self._wanted(k, made) for k, made in claims]
        found = [one for one in known if one is not None]
        gpus = any(one.gpus for one in found)
        if not claims or len(found) < len(known) or not (gpus or bound):
            return source
        if not gpus and _asks_gpus(source.raw):
            return source
        asked: Counter[str] = Counter()
        for (key, _), one in zip(claims, found, strict=True):
            if key not in self.given:
                asked.update(one.gpus)
                self.given |= {key} if bound else set()
            self.held |= set(self._devices(key) if bound else ())
        told = bool(asked) and any(one.told for one in found)
        return source._replace(raw=_asking(source.raw, asked, told=told))

    def node(self, source: Source) -> Source:
        """Return a node with the GPUs of its slices; those that nobody may ask for are away."""
        name = name_of(source)
        mine = self.of_host.get(name)
        if not mine or (name in self.plugin and name not in self.apart):
            return source
        lost = {
            one
            for one in mine
            if mine[one] is None or (one in self.allocated and one not in self.held)
        }
        parts = sum(self.parts[pool] for pool in {one[:2] for one in mine})
        driver = min(one.driver for one in mine)
        count, resource = sum(one.driver == driver for one in mine), self._name(driver)
        model = next((model for model in mine.values() if model), "")
        own = _at(source.raw, "metadata", "labels")
        label = (*MODEL_LABELS.get(resource, ()), DEVICE_MODEL)[0]
        labels = _merged(own, {} if label in _dict(own) else {label: model})
        left = str(max(0, count - len(lost) - parts))
        status = source.raw.get("status")
        given = {
            key: _merged(_at(status, key), {resource: number})
            for key, number in (("allocatable", left), ("capacity", str(count)))
        }
        meta = {**source.raw["metadata"], "labels": labels}
        return source._replace(
            raw={**source.raw, "metadata": meta, "status": _merged(status, given)}
        )

    def _are_apart(self, raw: Any, name: str) -> bool:
        """Whether a node has GPUs for both, those of its device plugin and those of its slices."""
        total = _text(raw, "metadata", "labels", _COUNT)
        both = self.plugin[name][1] + len(self.of_host.get(name, ()))
        return total.isdecimal() and both <= int(total[:9])

    def _names(self) -> Iterator[tuple[str, str]]:
        """Yield the drivers whose GPUs count as a resource that pods ask for, and that.

        A class says so; or slices are of the GPUs that a device plugin has on each of their nodes.
        """
        hosts: defaultdict[str, set[str]] = defaultdict(set)
        for device, (host, _) in self.gpus.items():
            hosts[device.driver].add(host)
        for driver, among in hosts.items():
            counts = {len(self.of_host[h]) - self.plugin[h][1] for h in among & set(self.plugin)}
            if among & self.apart or any(counts):
                continue
            said = {one.extended for one in self.classes.values() if one.driver == driver}
            said = set(accelerators_in(said))
            named = {self.plugin[host][0] for host in among if host in self.plugin}
            if len(said | named) == 1 and (said or among <= self.plugin.keys()):
                yield driver, min(said | named)

    def _name(self, driver: str) -> str:
        return self.names.get(driver, f"{DEVICES}{driver}")

    def _is_doubtful(self, driver: str) -> bool:
        """Whether GPUs of a driver may be a device plugin's, too, or these may not be them."""
        return any(name == self.names.get(driver) for name, _ in self.plugin.values())

    def _devices(self, key: tuple[str, str]) -> list[_Device]:
        results = _many(self.claims.get(key), "status", "allocation", "devices", "results")
        ids = ([_text(one, part) for part in ("driver", "pool", "device")] for one in results)
        return [_Device(*one) for one in ids]

    def _held(self, key: tuple[str, str], host: str) -> _Wanted | None:
        """Return what a claim holds of a node, None if that is not whole GPUs of it."""
        found = self._devices(key)
        mine = [one for one in found if one.driver.startswith(_GPU)]
        if not found or any(self.gpus.get(one, ("", ""))[0] != host for one in mine):
            return None
        if any(
            host in self.plugin and host not in self.apart and one.driver not in self.names
            for one in mine
        ):
            return None
        doubtful = any(self._is_doubtful(one.driver) for one in mine)
        return _Wanted(
            Counter(self._name(one.driver) for one in mine), doubtful or len(mine) < len(found)
        )

    def _wanted(self, key: tuple[str, str], template: tuple[str, str]) -> _Wanted | None:
        """Return what a claim that waits asks for, None if not a number of GPUs of one class."""
        raw = self.claims.get(key) or self.templates.get(template)
        asks = _many(raw, "spec", "devices", "requests")
        if not asks or self._devices(key) or self.users[key] > 1:
            return None
        found: Counter[str] = Counter()
        told = bool(_at(raw, "spec", "devices", "constraints"))
        for ask in asks:
            one = {**ask, **_dict(ask, "exactly")}
            name, count = _text(one, "deviceClassName"), one.get("count", 1)
            made = self.classes.get(name)
            driver = made.driver if made else name if name.startswith(_GPU) else ""
            if driver and not driver.startswith(_GPU):
                told = True
                continue
            plain = not {k for k, v in one.items() if v} - _PLAIN and type(count) is int
            whole = plain and count > 0 and (made is None or made.whole)
            if not whole or not driver or one.get("allocationMode", "ExactCount") != "ExactCount":
                return None
            found[self._name(driver)] += count
            told |= made is None or self._is_doubtful(driver)
        return _Wanted(found, told) if len(found) <= 1 else None


def _asking(pod: Any, asked: Mapping[str, int], *, told: bool) -> dict[str, Any]:
    """Return a pod that asks for resources in place of its claims; beside them if they are told."""
    spec = dict(pod["spec"])
    spec["overhead"] = _merged(spec.get("overhead"), {name: str(n) for name, n in asked.items()})
    made = {**pod, "spec": spec}
    if told:
        return made
    spec.pop("resourceClaims", None)
    for part in ("containers", "initContainers"):
        if isinstance(spec.get(part), list):
            spec[part] = [_unclaimed(one) for one in spec[part]]
    if isinstance(pod.get("status"), dict):
        made["status"] = {k: v for k, v in pod["status"].items() if k != _STATUSES}
    return made


def _extended(pod: Any) -> tuple[str, str]:
    """Return the claim that kube-scheduler has made for the resources that a pod asks for."""
    name = _text(pod, "status", "extendedResourceClaimStatus", "resourceClaimName")
    return _text(pod, "metadata", "namespace"), name


def _claims(pod: Any) -> list[tuple[tuple[str, str], tuple[str, str]]]:
    """Return namespace and name of each claim of a pod, and of the template that it is made of."""
    space = _text(pod, "metadata", "namespace")
    made = {
        _text(one, "name"): _text(one, "resourceClaimName")
        for one in _many(pod, "status", _STATUSES)
    }
    return [
        (
            (space, _text(one, "resourceClaimName") or made.get(_text(one, "name"), "")),
            (space, _text(one, "resourceClaimTemplateName")),
        )
        for one in _many(pod, "spec", "resourceClaims")
    ]


def _gpus(slices: Sequence[Any]) -> Iterator[tuple[_Device, tuple[str, str | None]]]:
    """Yield the whole GPUs of nodes: node and model; a model of None is one with a taint."""
    newest: defaultdict[tuple[str, str], int] = defaultdict(int)
    for raw in slices:
        pool = _text(raw, "spec", "driver"), _text(raw, "spec", "pool", "name")
        age = _at(raw, "spec", "pool", "generation")
        newest[pool] = max(newest[pool], age if isinstance(age, int) else 0)
    for raw in slices:
        driver, name = _text(raw, "spec", "driver"), _text(raw, "spec", "pool", "name")
        age, host = _at(raw, "spec", "pool", "generation") or 0, _text(raw, "spec", "nodeName")
        if not host or age != newest[driver, name] or not driver.startswith(_GPU):
            continue
        for one in _many(raw, "spec", "devices"):
            basic = _at(one, "basic") or one
            says = {
                str(key).rpartition("/")[2]: _text(value, "string")
                for key, value in _dict(basic, "attributes").items()
            }
            if says.get("type", "gpu") == "gpu" and not _at(basic, "allowMultipleAllocations"):
                model = re.sub(r"[^\w.-]+", "-", says.get("productName", ""))[:63]
                tainted = bool(_many(basic, "taints"))
                yield _Device(driver, name, _text(one, "name")), (host, None if tainted else model)


def _wired(slices: Sequence[Any]) -> list[str]:
    """Return the nodes whose slices say that not all GPUs are joined alike.

    Which GPUs a pod has is not read, so that their links cannot be obeyed.
    """
    said: defaultdict[str, set[str]] = defaultdict(set)
    for raw in slices:
        if _text(raw, "spec", "driver").startswith(_GPU):
            for one in _many(raw, "spec", "devices"):
                told = _dict(_at(one, "basic") or one, "attributes")
                wires = {str(k): v for k, v in told.items() if _WIRED.search(str(k))}
                said[_text(raw, "spec", "nodeName")].add(json.dumps(wires, sort_keys=True))
    return sorted(host for host, different in said.items() if host and len(different) > 1)


def _class(raw: Any) -> _Class:
    """Return what a class means; a driver that is not known is empty."""
    texts = [_text(one, "cel", "expression") for one in _many(raw, "spec", "selectors")]
    drivers = [match[1] for text in texts for match in _DRIVER.finditer(text)]
    whole = len(texts) == 1 and _CLASS.fullmatch(texts[0]) is not None
    driver = drivers[0] if len(drivers) == 1 else ""
    return _Class(driver, whole, _text(raw, "spec", "extendedResourceName"))


def _plugin(raw: Any) -> tuple[str, int] | None:
    """Return the GPUs of a device plugin that a node has: their resource, and how many."""
    has = _dict(raw, "status", "allocatable")
    counts = {str(k): int(v) for k, v in has.items() if _SOME.fullmatch(str(v))}
    return next(((name, counts[name]) for name in accelerators_in(counts)), None)


def _asks_gpus(pod: Any) -> bool:
    """Whether a pod asks for GPUs of a device plugin."""
    parts = (one for key in ("containers", "initContainers") for one in _many(pod, "spec", key))
    asked = (_dict(one, "resources", kind) for one in parts for kind in ("requests", "limits"))
    return bool(accelerators_in(name for one in asked for name in one))


def _unclaimed(container: Any) -> Any:
    """Return a container without the names of claims that it uses."""
    if not isinstance(_at(container, "resources"), dict):
        return container
    left = {k: v for k, v in container["resources"].items() if k != "claims"}
    return {**container, "resources": left}


def _at(value: Any, *keys: str) -> Any:
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _dict(value: Any, *keys: str) -> dict[str, Any]:
    found = _at(value, *keys)
    return found if isinstance(found, dict) else {}


def _merged(value: Any, more: Mapping[str, Any]) -> Any:
    """Return a mapping with more; what is none stays, since it is refused where it is read."""
    return {**(value or {}), **more} if isinstance(value, dict | None) else value


def _many(value: Any, *keys: str) -> list[dict[str, Any]]:
    found = _at(value, *keys)
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _text(value: Any, *keys: str) -> str:
    found = _at(value, *keys)
    return found if isinstance(found, str) else ""
