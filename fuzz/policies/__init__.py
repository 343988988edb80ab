"""The policies that are played, by name: each module brings one `POLICY`."""

from __future__ import annotations

from fuzz.policies import (
    cells,
    crowds,
    deadline,
    gang,
    geo,
    interleaving,
    links,
    pools,
    priorities,
    queue,
    replicas,
    sizes,
    stages,
)
from fuzz.policy import Policy

_ALL = (
    gang.POLICY,
    priorities.POLICY,
    crowds.POLICY,
    pools.POLICY,
    links.POLICY,
    sizes.POLICY,
    queue.POLICY,
    cells.POLICY,
    interleaving.POLICY,
    deadline.POLICY,
    geo.POLICY,
    replicas.POLICY,
    stages.POLICY,
)
POLICIES: dict[str, Policy] = {policy.name: policy for policy in _ALL}
