"""What a watch writes: the last round and plan, and that it is alive."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from tempfile import NamedTemporaryFile

from placewright.instances.documents.plan import Plan
from placewright.instances.documents.round import Round
from placewright.instances.io.files import json_text

ROUND, PLAN, COMMANDS, HEARTBEAT = "round.json", "plan.json", "commands.sh", "heartbeat"
FAILURE, METRICS = "failure.txt", "metrics.prom"


class Record:
    """A folder in which each file is whole at any moment: it takes the place of the one before.

    A plan names the digest of its round, so that a reader who comes between two files notices.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)

    def write(self, round_: Round, plan: Plan, commands: str) -> None:
        """Write a round, its plan, and the commands that carry it out."""
        self._replace(ROUND, json_text(round_))
        self._replace(PLAN, json_text(plan))
        self._replace(COMMANDS, commands)

    def beat(self, now: float) -> None:
        """Say that a state was read and decided `now`, in seconds since 1970."""
        self._replace(HEARTBEAT, f"{int(now)}\n")

    def fail(self, report: str) -> None:
        """Write what went wrong last."""
        self._replace(FAILURE, report)

    def count(self, metrics: Mapping[str, int]) -> None:
        """Write metrics of this watch as text that Prometheus' node exporter collects."""
        kinds = {name: "counter" if name.endswith("_total") else "gauge" for name in metrics}
        lines = [
            f"# TYPE placewright_watch_{name} {kinds[name]}\nplacewright_watch_{name} {value}\n"
            for name, value in metrics.items()
        ]
        self._replace(METRICS, "".join(lines))

    def _replace(self, name: str, text: str) -> None:
        with NamedTemporaryFile("w", dir=self.folder, prefix=f".{name}.", delete=False) as made:
            made.write(text)
            made.flush()
            os.fsync(made.fileno())
        Path(made.name).chmod(0o644)
        Path(made.name).replace(self.folder / name)
