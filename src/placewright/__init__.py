"""Placewright decides which jobs of a GPU cluster start, and where, with a proven bound.

The public names below are imported when they are first used, so that ``import placewright`` is
quick and loads no solver.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

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

_HOMES = {
    "Admitted": "placewright.rounds",
    "Changes": "placewright.rounds",
    "Cluster": "placewright.topology",
    "ClusterDocument": "placewright.instances.documents.cluster",
    "Comparison": "placewright.explain.comparison",
    "Edits": "placewright.instances.documents.edits",
    "Engine": "placewright.rounds",
    "Explanation": "placewright.explain.explanation",
    "InvalidInputError": "placewright.instances.errors",
    "Job": "placewright.instances.documents.job",
    "Plan": "placewright.instances.documents.plan",
    "Policy": "placewright.instances.documents.policy",
    "Protection": "placewright.rounds.protection",
    "Round": "placewright.instances.documents.round",
    "Tenant": "placewright.instances.documents.policy",
    "Verification": "placewright.instances.verify",
    "WhatIf": "placewright.explain.whatif",
    "apply_edits": "placewright.instances.edits.apply",
    "compare": "placewright.explain.comparison",
    "defragment": "placewright.instances.presets.presets",
    "drain": "placewright.instances.presets.presets",
    "explain_job": "placewright.explain.explain_job",
    "hot_swap": "placewright.instances.presets.presets",
    "load_edits": "placewright.instances.io.files",
    "load_cluster": "placewright.instances.io.files",
    "load_plan": "placewright.instances.io.files",
    "load_round": "placewright.instances.io.files",
    "minimal_victims": "placewright.instances.presets.presets",
    "protect": "placewright.rounds.protection",
    "replica_teams": "placewright.instances.presets.replica_teams",
    "return_hosts": "placewright.instances.presets.presets",
    "solve_round": "placewright.rounds",
    "whatif": "placewright.explain.whatif",
    "verify": "placewright.instances.verify",
    "write": "placewright.instances.io.files",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
