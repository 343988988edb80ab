"""Seeded rounds of regions: where data lives (policy `replicas`), which region runs which job.

The figures are those reported of MAST (Choudhury et al., OSDI'24), as far as they are known.
"""

from placewright.instances.generators.geo.rounds import MIXES, Facts, MixName, facts_of, generate
from placewright.instances.generators.geo.world import PolicyName

__all__ = ["MIXES", "Facts", "MixName", "PolicyName", "facts_of", "generate"]
