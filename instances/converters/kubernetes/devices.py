"""Devices (DRA): slices give a node its GPUs, claims say who holds or wants how many of them.

Whole GPUs of a driver count as an accelerator, `dra/DRIVER`, of nodes and pods; what else is
claimed stays in the pods, and is told.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from placewright.instances.converters.bookkeeping import Bookkeeping
from placewright.instances.converters.kubernetes.accelerators import (
    DEVICE_MODEL,
    DEVICES,
    accelerators_in,
)
from placewright.instances.converters.kubernetes.device_ledgers import (
    CLAIM,
    CLAIM_TEMPLATE,
    DEVICE_CLASS,
    DEVICE_LEDGERS,
    SLICE,
)
from placewright.instances.converters.kubernetes.sources import NODE, POD, Kind, Source, name_of
from placewright.instances.converters.ledger import Ledger
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

    Raises
    ------
    InvalidInputError
        A value that is read of a slice, claim or class is none that Kubernetes would have.
    """
    if not sources.get(SLICE):
        return sources
    right = {
        kind: [one for one in sources.get(kind, ()) if _is_right(one, ledger, book)]
        for kind, ledger in DEVICE_LEDGERS.items()
    }
    sources = {**sources, **right}
    reading = _Reading(sources)
    return {
        **sources,
        POD: [reading.pod(one) for one in sources.get(POD, ())],
        NODE: [reading.node(one) for one in sources.get(NODE, ())],
    }


def _is_right(source: Source, ledger: Ledger, book: Bookkeeping) -> bool:
    """Whether all that is read of an object has its type; if not, it is refused and left out."""
    read = [path for path in ledger.read.split() if path.startswith(("spec.", "status."))]
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


class _Reading:
    def __init__(self, sources: Sources) -> None:
        self.claims = {_key(one): one.raw for one in sources.get(CLAIM, ())}
        templates = sources.get(CLAIM_TEMPLATE, ())
        self.templates = {_key(one): _at(one.raw, "spec") for one in templates}
        self.drivers = {name_of(one): _driver(one.raw) for one in sources.get(DEVICE_CLASS, ())}
        self.gpus = dict(_gpus([one.raw for one in sources.get(SLICE, ())]))
        self.plugin = {name_of(one): _plugin(one.raw) for one in sources.get(NODE, ())}
        self.users = Counter(
            key for one in sources.get(POD, ()) for key, _ in _claims(one.raw) if key[1]
        )
        self.given: set[tuple[str, str]] = set()
        self.held: set[_Device] = set()
        self.guessed: set[tuple[str, str]] = set()

    def pod(self, source: Source) -> Source:
        """Return a pod that asks for GPUs what it claims; sharers of a claim ask once."""
        asked: Counter[str] = Counter()
        host, left = _text(source.raw, "spec", "nodeName"), False
        bound = bool(host) and _text(source.raw, "status", "phase") not in ("Succeeded", "Failed")
        for key, template in _claims(source.raw):
            found = self._held(key, host) if bound else self._wanted(key, template)
            left |= found is None
            if found is not None and key not in self.given:
                asked.update(found)
                self.given |= {key} if bound else set()
        if bound and left and not _asks_gpus(source.raw):
            devices = [self._devices(key) for key, _ in _claims(source.raw)]
            left = not all(found and not any(map(_is_gpu, found)) for found in devices)
        if left or not _claims(source.raw) or (not bound and host):
            return source
        if bound:
            self.held |= {one for key, _ in _claims(source.raw) for one in self._devices(key)}
        spec, raw = source.raw["spec"], dict(source.raw)
        given = _merged(spec.get("overhead"), {n: str(count) for n, count in asked.items()})
        if self.guessed.intersection(key for key, _ in _claims(source.raw)):
            return source._replace(raw={**source.raw, "spec": {**spec, "overhead": given}})
        spec = {k: v for k, v in spec.items() if k != "resourceClaims"} | {"overhead": given}
        for part in ("containers", "initContainers"):
            if isinstance(spec.get(part), list):
                spec[part] = [_unclaimed(one) for one in spec[part]]
        if isinstance(raw.get("status"), dict):
            raw["status"] = {k: v for k, v in raw["status"].items() if k != _STATUSES}
        return source._replace(raw={**raw, "spec": spec})

    def node(self, source: Source) -> Source:
        """Return a node with the GPUs of its slices; those that nobody may ask for are away."""
        name = name_of(source)
        mine = {one: model for one, (host, model) in self.gpus.items() if host == name}
        if not mine or self.plugin[name]:
            return source
        allocated = {one for key in self.claims for one in self._devices(key)}
        lost = {one for one in mine if one in allocated - self.held or mine[one] is None}
        pools = {one[:2] for one in mine}
        parts = sum(one not in self.gpus and one[:2] in pools for one in allocated)
        driver = f"{DEVICES}{min(one.driver for one in mine)}"
        count = sum(f"{DEVICES}{one.driver}" == driver for one in mine)
        model = next((model for model in mine.values() if model), "")
        own = _at(source.raw, "metadata", "labels")
        labels = _merged(own, {} if DEVICE_MODEL in _dict(own) else {DEVICE_MODEL: model})
        left = str(max(0, count - len(lost) - parts))
        status = source.raw.get("status")
        given = {
            key: _merged(_at(status, key), {driver: number})
            for key, number in (("allocatable", left), ("capacity", str(count)))
        }
        meta = {**source.raw["metadata"], "labels": labels}
        return source._replace(
            raw={**source.raw, "metadata": meta, "status": _merged(status, given)}
        )

    def _devices(self, key: tuple[str, str]) -> list[_Device]:
        results = _many(self.claims.get(key), "status", "allocation", "devices", "results")
        ids = ([_text(one, part) for part in ("driver", "pool", "device")] for one in results)
        return [_Device(*one) for one in ids]

    def _held(self, key: tuple[str, str], host: str) -> Counter[str] | None:
        """Return what a claim holds of a node, None if that is not whole GPUs of it alone."""
        found = self._devices(key)
        if not found or any(self.gpus.get(one, ("", ""))[0] != host for one in found):
            return None
        return None if self.plugin.get(host) else Counter(f"{DEVICES}{one.driver}" for one in found)

    def _wanted(self, key: tuple[str, str], template: tuple[str, str]) -> Counter[str] | None:
        """Return what a claim that waits asks for, None if not a number of GPUs of one class."""
        raw = self.claims.get(key) or self.templates.get(template)
        asks = _many(raw, "spec", "devices", "requests")
        if self._devices(key) or self.users[key] > 1 or _at(raw, "spec", "devices", "constraints"):
            return None
        found: Counter[str] = Counter()
        for ask in asks:
            one = {**ask, **_dict(ask, "exactly")}
            name, count = _text(one, "deviceClassName"), one.get("count", 1)
            driver = self.drivers.get(name, name if name.startswith(_GPU) else "")
            self.guessed |= set() if name in self.drivers else {key}
            plain = not {k for k, v in one.items() if v} - _PLAIN and type(count) is int
            if not plain or not driver or one.get("allocationMode", "ExactCount") != "ExactCount":
                return None
            found[f"{DEVICES}{driver}"] += count
        return found if len(found) == 1 and min(found.values()) > 0 else None


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


def _driver(raw: Any) -> str:
    """Return the driver all of whose GPUs a class means; empty if it means something else."""
    texts = [_text(one, "cel", "expression") for one in _many(raw, "spec", "selectors")]
    found = _CLASS.fullmatch(texts[0]) if len(texts) == 1 else None
    return found[1] if found and found[1].startswith(_GPU) else ""


def _plugin(raw: Any) -> bool:
    has = _at(raw, "status", "allocatable")
    return bool(isinstance(has, dict) and accelerators_in(map(str, has)))


def _is_gpu(device: _Device) -> bool:
    return device.driver.startswith(_GPU)


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


def _key(source: Source) -> tuple[str, str]:
    return _text(source.raw, "metadata", "namespace"), name_of(source)


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
