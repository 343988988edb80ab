"""Placewright decides which jobs of a GPU cluster start, and where, with a proven bound.

The public names below are imported when they are first used, so that ``import placewright`` is
quick and loads no solver.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from placewright.first_use import on_first_use

if TYPE_CHECKING:
    from placewright.explain.comparison import Comparison, compare
    from placewright.explain.explain_job import explain_job
    from placewright.explain.explanation import Explanation
    from placewright.explain.whatif import WhatIf, whatif
    from placewright.instances.documents.cluster import ClusterDocument
    from placewright.instances.documents.edits import Edits
    from placewright.instances.documents.job import Job
    from placewright.instances.documents.plan import Plan
    from placewright.instances.documents.policy import Policy, Tenant
    from placewright.instances.documents.round import Round
    from placewright.instances.edits.apply import apply_edits
    from placewright.instances.errors import InvalidInputError
    from placewright.instances.io.files import (
        load_cluster,
        load_edits,
        load_plan,
        load_round,
        write,
    )
    from placewright.instances.presets.presets import (
        defragment,
        drain,
        hot_swap,
        minimal_victims,
        return_hosts,
    )
    from placewright.instances.presets.replica_teams import replica_teams
    from placewright.instances.verify import Verification, verify
    from placewright.rounds import Admitted, Changes, Engine, solve_round
    from placewright.rounds.protection import Protection, protect
    from placewright.topology import Cluster

__version__ = "0.2.0"

__all__ = [
    "Admitted",
    "Changes",
    "Cluster",
    "ClusterDocument",
    "Comparison",
    "Edits",
    "Engine",
    "Explanation",
    "InvalidInputError",
    "Job",
    "Plan",
    "Policy",
    "Protection",
    "Round",
    "Tenant",
    "Verification",
    "WhatIf",
    "__version__",
    "apply_edits",
    "compare",
    "defragment",
    "drain",
    "explain_job",
    "hot_swap",
    "load_cluster",
    "load_edits",
    "load_plan",
    "load_round",
    "minimal_victims",
    "protect",
    "replica_teams",
    "return_hosts",
    "solve_round",
    "verify",
    "whatif",
    "write",
]

__getattr__ = on_first_use(
    __name__,
    {
        "explain.comparison": ("Comparison", "compare"),
        "explain.explain_job": ("explain_job",),
        "explain.explanation": ("Explanation",),
        "explain.whatif": ("WhatIf", "whatif"),
        "instances.documents.cluster": ("ClusterDocument",),
        "instances.documents.edits": ("Edits",),
        "instances.documents.job": ("Job",),
        "instances.documents.plan": ("Plan",),
        "instances.documents.policy": ("Policy", "Tenant"),
        "instances.documents.round": ("Round",),
        "instances.edits.apply": ("apply_edits",),
        "instances.errors": ("InvalidInputError",),
        "instances.io.files": ("load_cluster", "load_edits", "load_plan", "load_round", "write"),
        "instances.presets.presets": (
            "defragment",
            "drain",
            "hot_swap",
            "minimal_victims",
            "return_hosts",
        ),
        "instances.presets.replica_teams": ("replica_teams",),
        "instances.verify": ("Verification", "verify"),
        "rounds": ("Admitted", "Changes", "Engine", "solve_round"),
        "rounds.protection": ("Protection", "protect"),
        "topology": ("Cluster",),
    },
)


def __dir__() -> list[str]:
    return sorted(__all__)
