"""The policies that are played, by name: each module brings one `POLICY`."""

from __future__ import annotations

from fuzz.policies import gang, replicas
from fuzz.policy import Policy

POLICIES: dict[str, Policy] = {policy.name: policy for policy in (gang.POLICY, replicas.POLICY)}
