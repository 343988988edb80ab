"""`python -m fuzz explain --policy NAME [--jobs N] [--seed SEED] [--state FILE]`, from the root."""

from __future__ import annotations

import argparse
import signal
from collections.abc import Sequence
from pathlib import Path

from fuzz.explanations.run import NAMES, run


def main(arguments: Sequence[str]) -> int:
    """Explain jobs that wait; return 1 if anything is wrong."""
    asked = _parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        state = run(asked.policy, asked.jobs, asked.seed, asked.state, _tell)
    except KeyboardInterrupt:
        print("interrupted; the state is kept" if asked.state else "interrupted")
        return 130
    print(state.line(), flush=True)
    return int(bool(state.wrong))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m fuzz explain", description=__doc__)
    parser.add_argument("--policy", required=True, choices=NAMES)
    parser.add_argument("--jobs", type=int, default=100, help="how many that cannot start")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--state", type=Path, help="file of the state, to go on with later")
    return parser


def _tell(seed: int, job: str, text: str) -> None:
    print(f"seed {seed}, {job}: {text}", flush=True)
