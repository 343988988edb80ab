"""Accelerators: resources of nodes that a round counts as GPUs, each name on its own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from fnmatch import fnmatchcase
from functools import lru_cache
from types import MappingProxyType

_MACHINE = "node.kubernetes.io/instance-type"
DEVICES, DEVICE_MODEL = "dra/", "placewright.dev/device-model"
_NVIDIA = ("nvidia.com/gpu.product", "cloud.google.com/gke-accelerator")

MODEL_LABELS: Mapping[str, tuple[str, ...]] = {
    "nvidia.com/gpu": _NVIDIA,
    "amd.com/gpu": ("amd.com/gpu.product-name",),
    "nvidia.com/gpu.shared": _NVIDIA,
    "nvidia.com/mig-*": _NVIDIA,
    "gpu.intel.com/i915": ("gpu.intel.com/product",),
    "gpu.intel.com/xe": ("gpu.intel.com/product",),
    "google.com/tpu": ("cloud.google.com/gke-tpu-accelerator",),
    "habana.ai/gaudi": (),
    "aws.amazon.com/neuron": (),
    "aws.amazon.com/neurondevice": (),
    "aws.amazon.com/neuroncore": (),
    "amd.com/*px_nps*": ("amd.com/gpu.product-name",),
    **dict.fromkeys(
        (
            "huawei.com/Ascend*",
            "cambricon.com/mlu*",
            "hygon.com/dcu",
            "metax-tech.com/gpu",
            "mthreads.com/gpu",
            "iluvatar.com/gpu",
            "enflame.com/gcu",
            "kunlunxin.com/xpu",
            "qualcomm.com/qaic",
        ),
        (),
    ),
    f"{DEVICES}*": (_NVIDIA[0], "amd.com/gpu.product-name", DEVICE_MODEL),
}
"""Names that count, `*` for any end, and the labels of nodes that tell the model.

On a node with several of them the first is that of its GPUs; the others, and slices beside anything
else, are resources of hosts, on every node.
"""

SHARED = "-SHARED"
"""What a label of the model ends with where GPUs are shared in time."""

NO_ACCELERATORS: Mapping[str, str] = MappingProxyType({})

_ALSO: ContextVar[Mapping[str, str]] = ContextVar("also", default=NO_ACCELERATORS)
_NOTHING: frozenset[str] = frozenset()
_BESIDE: ContextVar[frozenset[str]] = ContextVar("beside", default=_NOTHING)


@contextmanager
def counting(also: Mapping[str, str]) -> Iterator[None]:
    """Context: resources of these names count too; each has the label that tells its model."""
    token, beside = _ALSO.set(dict(also)), _BESIDE.set(_NOTHING)
    try:
        yield
    finally:
        _ALSO.reset(token)
        _BESIDE.reset(beside)


def count_beside(nodes: Iterable[Iterable[str]]) -> None:
    """Within `counting`: learn which names are resources beside GPUs, from those of each node."""
    found: set[str] = set()
    for names in nodes:
        first, *others = accelerators_in(names) or [""]
        found |= {first, *others} if others and is_slice(first) else set(others)
    _BESIDE.set(frozenset(found))


def accelerators_in(names: Iterable[str]) -> list[str]:
    """Return the names that count as GPUs, in the order of the table, what users name first."""
    return [name for name in _known(names) if name not in _BESIDE.get()]


def beside_in(names: Iterable[str]) -> list[str]:
    """Return the names of accelerators that are resources beside GPUs."""
    return [name for name in _known(names) if name in _BESIDE.get()]


def _known(names: Iterable[str]) -> list[str]:
    also = tuple(_ALSO.get())
    known = [(at, name) for name in names if (at := _place(name, also)) is not None]
    return [name for _, name in sorted(known)]


def is_slice(name: str) -> bool:
    """Whether a resource is slices of GPUs (MIG)."""
    return name.partition("/")[2].startswith("mig-")


@lru_cache(maxsize=4096)
def _place(name: str, also: tuple[str, ...]) -> int | None:
    """Return where in the table a name stands, behind what users name; None: nowhere."""
    patterns = enumerate((*also, *MODEL_LABELS))
    return next((at for at, one in patterns if fnmatchcase(name, one)), None)


def model_of(name: str, labels: Mapping[str, str]) -> tuple[str, bool]:
    """Return the model of the accelerators of a node, and whether a label says it.

    Without one it is the type of the machine, or else the maker. Parts of a GPU carry the name of
    their resource behind it, since they are not what whole GPUs of that model are.
    """
    also = _ALSO.get()
    own = next((keys for one, keys in MODEL_LABELS.items() if fnmatchcase(name, one)), ())
    keys = (also[name],) if name in also else own
    told = next((labels[key] for key in keys if labels.get(key)), None)
    found = told or labels.get(_MACHINE) or name.partition(".")[0]
    kind = name.partition("/")[2]
    part = f":{kind}" if kind.startswith("mig-") or kind == "gpu.shared" else ""
    return found.removesuffix(SHARED) + part, told is not None


def told_labels() -> list[str]:
    """Return all labels that tell a model."""
    return [key for keys in ((*_ALSO.get().values(),), *MODEL_LABELS.values()) for key in keys]
