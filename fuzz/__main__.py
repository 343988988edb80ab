"""`python -m fuzz POLICY [POLICY ...] [--rounds N] [--setting NAME] [--state DIR]`, from the root.

`python -m fuzz explain --policy POLICY` compares explanations of jobs that wait, and
`python -m fuzz mutants` plants faults that the tests have to find.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from fuzz import mutants
from fuzz.explanations import command as explanations
from fuzz.play import HEADER, Failure, Played
from fuzz.policies import POLICIES
from fuzz.policy import Policy, Raw
from fuzz.run import one, run
from fuzz.shrink import shrunk
from fuzz.small_units import as_document

EVERY = "all"


def main(arguments: list[str] | None = None) -> int:
    """Play; return 1 if anything failed."""
    words = sys.argv[1:] if arguments is None else arguments
    if words[:1] == ["explain"]:
        return explanations.main(words[1:])
    if words[:1] == ["mutants"]:
        return mutants.main(words[1:])
    parser = _parser()
    asked = parser.parse_args(words)
    # In the background a shell lets Ctrl-C be ignored.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    names = list(POLICIES) if EVERY in asked.policies else asked.policies
    policies = {name: _under(POLICIES[name], asked.setting, parser) for name in names}
    if asked.seed is not None:
        return max(_replay(policies[name], asked.seed, asked.out, asked.shrink) for name in names)
    failed = 0
    for name, policy in policies.items():
        try:
            state = run(policy, asked.rounds, asked.first, asked.state, _tell(name))
        except KeyboardInterrupt:
            print("interrupted; the state is kept" if asked.state else "interrupted")
            return 130
        print(state.line(), flush=True)
        failed |= bool(state.failures)
    return failed


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument(
        "policies", nargs="+", metavar="POLICY", choices=[*POLICIES, EVERY],
        help=f"{', '.join(POLICIES)} or {EVERY}",
    )  # fmt: skip
    parser.add_argument("--rounds", type=int, default=100, help="how many rounds a policy")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--setting", metavar="NAME", help="the only one to solve under")
    parser.add_argument("--state", type=Path, help="folder of the state, to go on with later")
    parser.add_argument("--seed", type=int, help="play one seed and write its files")
    parser.add_argument("--shrink", action="store_true", help="with --seed: make the round smaller")
    parser.add_argument(
        "--out", type=Path, default=Path("fuzz-seeds"), help="with --seed: where its files go"
    )
    return parser


def _under(policy: Policy, name: str | None, parser: argparse.ArgumentParser) -> Policy:
    """Return the policy with the setting of a name alone; None: with all of them."""
    if name is None:
        return policy
    chosen = tuple(setting for setting in policy.settings if setting.name == name)
    if not chosen:
        known = ", ".join(repr(setting.name) for setting in policy.settings)
        parser.error(f"--setting {name!r}: {policy.name} has no such setting; expected {known}")
    return replace(policy, settings=chosen)


def _tell(name: str) -> Callable[[int, list[Failure]], None]:
    def told(seed: int, failures: list[Failure]) -> None:
        for failure in failures:
            print(f"{name} --seed {seed}: {failure.kind}: {failure.text}", flush=True)

    return told


def _replay(policy: Policy, seed: int, out: Path, smaller: bool) -> int:
    raw, played, _ = one(policy, seed)
    if smaller and played.failures:
        raw, played = shrunk(policy, raw, seed, played)
    _tell(policy.name)(seed, played.failures)
    folder = out / f"{policy.name}-{seed}"
    folder.mkdir(parents=True, exist_ok=True)
    for name, document in _documents(raw, played):
        (folder / f"{name}.json").write_text(json.dumps(document, indent=1))
    print(f"{played.plans} plans, {played.bounds} bounds; files are in {folder}")
    return int(bool(played.failures))


def _documents(raw: Raw, played: Played) -> list[tuple[str, Raw]]:
    documents: list[tuple[str, Raw]] = [("round", _round_document(raw))]
    if played.later is not None:
        documents.append(("later.round", _round_document(played.later)))
    if played.solved is not None:
        documents.append(("solved.plan", played.solved.model_dump(mode="json", exclude_none=True)))
    for number, failure in enumerate(played.failures):
        if failure.plan is not None:
            plan = {**HEADER, "kind": "Plan", **failure.plan}
            documents.append((f"{number}-{failure.kind}.plan", plan))
    return documents


def _round_document(raw: Raw) -> Raw:
    document: Raw = as_document({**HEADER, "kind": "Round", **raw})
    return document


if __name__ == "__main__":
    sys.exit(main())
