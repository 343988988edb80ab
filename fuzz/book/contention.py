"""The term `contention`, by the formula of docs/glossary.md."""

from __future__ import annotations

from collections.abc import Iterable

from fuzz.book.choices import KEEP, Choice, Choices
from fuzz.book.facts import Facts, Job


def contention(facts: Facts, choices: Choices) -> int:
    """Return what is sent beyond the bandwidth of links, less that of kept jobs alone."""
    every = [(job, c) for job, c in zip(facts.jobs, choices, strict=True) if c.runs]
    return _excess(facts, every) - _excess(facts, [(j, c) for j, c in every if c.kind == KEEP])


def _excess(facts: Facts, runs: Iterable[tuple[Job, Choice]]) -> int:
    """Return the excess of jobs; hosts that are drawn have no NICs."""
    total, runs = 0, list(runs)
    for position, level in enumerate(facts.levels):
        if position == 0 and facts.raw["cluster"].get("wan"):
            continue
        for domain in {host.domains[position] for host in facts.hosts}:
            bandwidth, load = facts.uplink(level, domain), 0
            for job, choice in runs:
                for g, group in enumerate(job.options[choice.option].groups):
                    inside = [
                        facts.hosts[place[2]].domains[position] == domain
                        for place in choice.places
                        if place[0] == g
                    ]
                    if any(inside) and not all(inside):
                        load += (group.communication or {}).get("rate_mbps", 0)
            total += 0 if bandwidth is None else max(0, load - bandwidth)
    return total
