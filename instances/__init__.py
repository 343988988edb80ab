"""Cluster, Round and Plan documents: reading, checking, writing.

Names are loaded when first used: importing this package alone costs next to nothing. The
independent check is in `placewright.instances.verify`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from placewright.instances.documents.cluster import ClusterDocument
    from placewright.instances.documents.plan import Plan
    from placewright.instances.documents.round import Round
    from placewright.instances.errors import InvalidInputError
    from placewright.instances.io.digest import round_digest
    from placewright.instances.io.files import (
        load,
        load_cluster,
        load_plan,
        load_round,
        parse_cluster,
        parse_plan,
        parse_round,
        write,
    )
    from placewright.instances.presets.presets import (
        defragment,
        drain,
        hot_swap,
        minimal_victims,
        return_hosts,
    )

__all__ = [
    "ClusterDocument",
    "InvalidInputError",
    "Plan",
    "Round",
    "defragment",
    "drain",
    "hot_swap",
    "load",
    "load_cluster",
    "load_plan",
    "load_round",
    "minimal_victims",
    "parse_cluster",
    "parse_plan",
    "parse_round",
    "return_hosts",
    "round_digest",
    "write",
]

_HOMES = {
    "documents.cluster": ("ClusterDocument",),
    "io.digest": ("round_digest",),
    "errors": ("InvalidInputError",),
    "io.files": (
        "load",
        "load_cluster",
        "load_plan",
        "load_round",
        "parse_cluster",
        "parse_plan",
        "parse_round",
        "write",
    ),
    "documents.plan": ("Plan",),
    "presets.presets": ("defragment", "drain", "hot_swap", "minimal_victims", "return_hosts"),
    "documents.round": ("Round",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)
