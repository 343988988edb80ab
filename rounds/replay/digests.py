"""What the card of a replay says in short: its hosts, and digests of outages and of the trace."""

from __future__ import annotations

import hashlib
import json

from placewright.instances.traces.trace import Trace
from placewright.rounds.replay.loop import Outage


def digest_of(outages: tuple[Outage, ...]) -> str:
    """Return how many outages there are, and of which kind: the start of their sha256."""
    if not outages:
        return "none"
    return f"{len(outages)}, {hashlib.sha256(json.dumps(outages).encode()).hexdigest()[:12]}"


def host_text(hosts: tuple[int, ...]) -> str:
    """Write hosts as `8x8, 4x4`: numbers of hosts and their GPUs."""
    runs: list[tuple[int, int]] = []
    for gpus in hosts:
        if runs and runs[-1][1] == gpus:
            runs[-1] = (runs[-1][0] + 1, gpus)
        else:
            runs.append((1, gpus))
    return ", ".join(f"{count}x{gpus}" for count, gpus in runs)


def trace_digest(trace: Trace) -> str:
    """Return the sha256 of a trace: its columns and all names in it."""
    digest = hashlib.sha256()
    columns = {
        "submit_us": trace.submit_us,
        "gpus": trace.gpus,
        "work_us": trace.work_us,
        "predicted_us": trace.predicted_us,
        "deadline_us": trace.deadline_us,
        "value": trace.value,
        "tenant": trace.tenant,
        "model": trace.model,
        **trace.extra,
    }
    for name, rows in columns.items():
        digest.update(name.encode())
        digest.update(rows.tobytes())
    for names in (trace.names, trace.tenants, trace.models):
        digest.update(json.dumps(tuple(names)).encode())
    return digest.hexdigest()
