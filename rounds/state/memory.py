"""Caches of an engine: what consecutive rounds share is made once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from placewright.formulations.gang.problem.compile import Compiler
from placewright.instances.documents.round import Round
from placewright.instances.io.digest import Digester
from placewright.rounds.decisions import DefaultDecisions
from placewright.rounds.state.admission import Ledger


class Memory:
    """Compiled rounds, digests, decisions that keep jobs in place, leases and reservations."""

    def __init__(self) -> None:
        self.compile = Compiler()
        self.digest = Digester()
        self.default_decisions = DefaultDecisions()
        self.ledger = Ledger()
        self.reservations: Mapping[str, Mapping[str, Any]] = {}

    def learn(self, round_: Round) -> None:
        """Fill the caches with what later rounds share with this one."""
        self.compile(round_)
        self.digest(round_)
        self.default_decisions(round_)
