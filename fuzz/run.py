"""Many rounds of a policy, one seed after the other, with a state that survives an interrupt."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random

from fuzz.host_sets import with_host_sets
from fuzz.play import Failure, Played, play
from fuzz.policy import Policy, Raw, TooManyPlansError

DRAWS = 200
"""So many rounds are drawn for a seed until one has few enough plans."""
SAVED_EVERY_S = 20.0


@dataclass(slots=True)
class State:
    """What was played of a policy; `next` is the seed to go on with, `rejected` are large draws."""

    policy: str
    next: int
    commit: str = ""
    rounds: int = 0
    rejected: int = 0
    plans: int = 0
    verified: int = 0
    decided: int = 0
    bounds: int = 0
    best_first: int = 0
    seconds: float = 0.0
    features: dict[str, int] = field(default_factory=dict)
    failures: list[dict[str, str | int]] = field(default_factory=list)

    def add(self, seed: int, played: Played, rejected: int) -> None:
        """Count a round."""
        self.next = seed + 1
        self.rounds += 1
        self.rejected += rejected
        self.plans += played.plans
        self.verified += played.verified
        self.decided += played.decided
        self.bounds += played.bounds
        self.best_first += played.best_first is not False
        for name in sorted(played.features):
            self.features[name] = self.features.get(name, 0) + 1
        self.failures += [
            {"seed": seed, "kind": failure.kind, "text": failure.text, "commit": self.commit}
            for failure in played.failures
        ]

    def line(self) -> str:
        """Say it in a line."""
        rounds = max(self.rounds, 1)
        return (
            f"{self.policy}: {self.rounds} rounds to seed {self.next - 1} "
            f"({self.decided} decided, those of engines too), "
            f"{len(self.failures)} failures, {self.plans / rounds:.0f} plans and "
            f"{self.bounds / rounds:.0f} bounds a round, first term best in "
            f"{100 * self.best_first / rounds:.2f} %, {1000 * self.seconds / rounds:.0f} ms a round"
        )


def one(policy: Policy, seed: int) -> tuple[Raw, Played, int]:
    """Play a seed; return its round, what came of it, and how many draws had too many plans."""
    rng = Random(f"draw {policy.name} {seed}")
    for rejected in range(DRAWS):
        try:
            raw = with_host_sets(Random(f"sets {policy.name} {seed}"), policy.draw(rng))
            return raw, play(policy, raw, seed), rejected
        except TooManyPlansError:
            continue
    raise RuntimeError(f"{DRAWS} rounds of {policy.name} in a row have too many plans")


def run(
    policy: Policy,
    rounds: int,
    first: int,
    folder: Path | None,
    told: Callable[[int, list[Failure]], None],
) -> State:
    """Play rounds until there are so many, in all if there is a folder for the state.

    Parameters
    ----------
    rounds, first
        How many, and the first seed (where no state says another).
    folder
        Where the state is kept, one JSON file for each policy; None: nowhere.
    told
        Is called with the seed and failures of each round that has some.
    """
    file = None if folder is None else folder / f"{policy.name}.json"
    state = State(policy.name, first)
    if file is not None and file.exists():
        state = State(**json.loads(file.read_text()))
    state.commit = _commit()
    saved = time.monotonic()
    try:
        while state.rounds < rounds:
            began, seed = time.process_time(), state.next
            _raw, played, rejected = one(policy, seed)
            state.seconds += time.process_time() - began
            state.add(seed, played, rejected)
            if played.failures:
                told(seed, played.failures)
            if file is not None and (played.failures or time.monotonic() - saved > SAVED_EVERY_S):
                _save(state, file)
                saved = time.monotonic()
    finally:
        if file is not None:
            _save(state, file)
    return state


def _save(state: State, file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    aside = file.with_suffix(".tmp")
    aside.write_text(json.dumps(asdict(state), indent=1))
    aside.replace(file)


def _commit() -> str:
    asked = ["git", "rev-parse", "--short", "HEAD"]
    try:
        return subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""
