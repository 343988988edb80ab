"""Cluster, Round and Plan documents: reading, checking, writing.

Names are loaded when first used: importing this package alone costs next to nothing. The
independent check is in `placewright.instances.verify`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from placewright.first_use import on_first_use

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

__getattr__ = on_first_use(
    __name__,
    {
        "documents.cluster": ("ClusterDocument",),
        "documents.plan": ("Plan",),
        "documents.round": ("Round",),
        "errors": ("InvalidInputError",),
        "io.digest": ("round_digest",),
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
        "presets.presets": ("defragment", "drain", "hot_swap", "minimal_victims", "return_hosts"),
    },
)
