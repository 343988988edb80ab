"""Facts of policy `geo`: a job starts if some region has places for its tasks and all its data."""

from __future__ import annotations

from placewright.explain.facts.asks import asks
from placewright.explain.facts.away import away
from placewright.explain.facts.data import (
    asks_of_data,
    copies_under_way,
    links_away,
    quotas_of_regions,
    rules_on_data,
)
from placewright.explain.facts.fact import Fact
from placewright.explain.facts.gang import base, jobs_that_run, question, started
from placewright.explain.facts.policies import PolicyFacts
from placewright.explain.facts.regions_for import places
from placewright.explain.facts.rules import rules
from placewright.explain.facts.situation import Situation
from placewright.instances.documents.round import Round


def facts(situation: Situation, round_: Round, job: str) -> list[Fact]:
    """Return the facts of a base round, in the order of preference."""
    return [
        *asks(round_, job),
        *asks_of_data(round_, job),
        *rules(round_, job),
        *quotas_of_regions(round_, job),
        *rules_on_data(round_, job),
        *away(round_, job),
        *links_away(round_, job),
        *copies_under_way(round_, job),
        *jobs_that_run(situation, round_, job),
    ]


POLICY = PolicyFacts(base, facts, question, started, places)
