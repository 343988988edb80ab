"""Seeded rounds of regions: where data lives (policy `replicas`), which region runs which job.

The figures are those reported of MAST (Choudhury et al., OSDI'24), as far as they are known.
"""

from placewright.instances.geo_generator.facts import Facts, facts_of
from placewright.instances.geo_generator.rounds import MIXES, MixName, generate

__all__ = ["MIXES", "Facts", "MixName", "facts_of", "generate"]
