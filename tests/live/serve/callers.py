"""Many callers of one service at once: every answer is right, or 503 with a time to try again.

By hand: `python tests/live/serve/callers.py SECONDS` starts a service, and prints figures as JSON.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import ssl
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from placewright import verify
from placewright.instances import parse_round
from placewright.instances.io.files import parse_plan
from placewright.solver.process import usage

ROOT = Path(__file__).parents[3]
TOKEN = "a-token-of-the-tests"
HEAD = {"apiVersion": "placewright/v1alpha2"}
NAMED = {"Authorization": f"Bearer {TOKEN}"}


@dataclass
class Figures:
    """What came back: counts by what was asked and status, wrong answers.

    And memory over time, of the service and with its processes.
    """

    answers: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    mib: list[float] = field(default_factory=list)
    tree_mib: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class Service:
    """A running service: its process and address."""

    process: subprocess.Popen[str]
    url: str

    def resident_mib(self) -> float:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        line = next(one for one in status.splitlines() if one.startswith("VmRSS"))
        return int(line.split()[1]) / 1024


@contextlib.contextmanager
def running(folder: Path, *options: str, tls: ssl.SSLContext | None = None) -> Iterator[Service]:
    """Run `placewright serve` on a free port of loopback; `tls` is how it may be connected to."""
    token, log = folder / "token", folder / "log"
    token.write_text(TOKEN)
    words = ["serve", "--port", "0", "--token-file", str(token), *options]
    with log.open("w") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "placewright.cli.app", *words],
            stderr=errors,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), *sys.path])},
        )
        try:
            deadline = time.monotonic() + 60
            while " serves on " not in log.read_text():
                assert process.poll() is None, log.read_text()
                assert time.monotonic() < deadline
                time.sleep(0.05)
            url = log.read_text().partition(" serves on ")[2].split()[0]
            while True:
                with contextlib.suppress(httpx.TransportError):
                    if httpx.get(f"{url}/healthz", verify=tls or True).status_code == 200:
                        break
                assert time.monotonic() < deadline
                time.sleep(0.05)
            yield Service(process, url)
        finally:
            process.terminate()
            process.wait(30)


def round_of(hosts: int, jobs: int) -> dict[str, Any]:
    """Return a round of which the best value is known: each job takes a host."""
    return {
        **HEAD,
        "kind": "Round",
        "cluster": {"hosts": [{"name": f"h[0-{hosts - 1}]", "gpus": 8, "gpu_model": "H100"}]},
        "jobs": [{"name": f"j{i}", "options": [{"groups": [{"gpu": 8}]}]} for i in range(jobs)],
    }


def best(hosts: int, jobs: int) -> int:
    return 8000 * min(hosts, jobs)


def placed(hosts: int, jobs: int) -> list[dict[str, Any]]:
    """Return the decisions of a plan in which the first jobs start, one on each host."""
    task = {"gpus": list(range(8))}
    return [
        {
            "job": f"j{i}",
            "decision": "start",
            "option": 0,
            "tasks": [{"host": f"h{i}", **task}],
        }
        if i < hosts
        else {"job": f"j{i}", "decision": "wait"}
        for i in range(jobs)
    ]


class Caller:
    """Asks one thing after the other, and checks what comes back."""

    def __init__(self, client: httpx.AsyncClient, figures: Figures, seed: int) -> None:
        self._client, self._figures, self._random = client, figures, random.Random(seed)

    async def call(self, until: float) -> None:
        asks = (self.solve, self.solve, self.verify, self.break_rule, self.explain, self.mistake)
        while time.monotonic() < until:
            ask = self._random.choice(asks)
            hosts, jobs = self._random.randint(1, 4), self._random.randint(1, 6)
            await ask(hosts, jobs)

    async def _post(self, name: str, path: str, body: Any) -> Any:
        """Return the answer; None if the service is busy and says when to try again."""
        answer = await self._client.post(path, json=body, headers=NAMED)
        self._figures.answers[f"{name} {answer.status_code}"] += 1
        if answer.status_code == 503:
            self._expect(int(answer.headers.get("Retry-After", 0)) >= 1, "no Retry-After")
            await asyncio.sleep(self._random.random())
            return None
        expected = 422 if name == "mistake" else 200
        self._expect(answer.status_code == expected, f"{name}: {answer.status_code}")
        return answer.json()

    def _expect(self, truth: bool, what: str) -> None:
        if not truth:
            self._figures.wrong.append(what)

    async def solve(self, hosts: int, jobs: int) -> None:
        asked = round_of(hosts, jobs)
        if (plan := await self._post("solve", "/v1alpha2/solve", asked)) is not None:
            value = plan["certificate"]["terms"][0]
            self._expect(value["value"] == value["bound"] == best(hosts, jobs), f"solve: {value}")
            self._expect(plan["certificate"]["degraded"] == [], "degraded")
            self._expect(verify(parse_round(asked), parse_plan(plan)).ok, "not valid")

    async def verify(self, hosts: int, jobs: int) -> None:
        plan = {**HEAD, "kind": "Plan", "decisions": placed(hosts, jobs)}
        asked = {"round": round_of(hosts, jobs), "plan": plan}
        if (verdict := await self._post("verify", "/v1alpha2/verify", asked)) is not None:
            self._expect(verdict["valid"], "a valid plan is not")
            self._expect(verdict["terms"]["value"] == best(hosts, jobs), "value")

    async def break_rule(self, hosts: int, jobs: int) -> None:
        decisions = placed(hosts, jobs)
        decisions[0]["tasks"][0]["gpus"] = [0]
        plan = {**HEAD, "kind": "Plan", "decisions": decisions}
        asked = {"round": round_of(hosts, jobs), "plan": plan}
        if (verdict := await self._post("verify", "/v1alpha2/verify", asked)) is not None:
            self._expect(not verdict["valid"], "an invalid plan is valid")

    async def explain(self, hosts: int, jobs: int) -> None:
        jobs = hosts + 1
        plan = {**HEAD, "kind": "Plan", "decisions": placed(hosts, jobs)}
        asked = {
            "round": round_of(hosts, jobs),
            "plan": plan,
            "job": f"j{hosts}",
            "corrections": 0,
        }
        if (found := await self._post("explain", "/v1alpha2/explain", asked)) is not None:
            self._expect(found["verdict"] == "others_instead", f"explain: {found['verdict']}")

    async def mistake(self, hosts: int, jobs: int) -> None:
        asked = round_of(hosts, jobs)
        asked["jobs"][-1]["tenant"] = "nobody"
        if (error := await self._post("mistake", "/v1alpha2/solve", asked)) is not None:
            self._expect(error["errors"][0]["path"] == f"jobs[{jobs - 1}].tenant", str(error))


async def hammer(service: Service, callers: int, seconds: float) -> Figures:
    """Call a service from many callers for some seconds."""
    figures = Figures()
    limits = httpx.Limits(max_connections=callers)
    until = time.monotonic() + seconds
    async with httpx.AsyncClient(base_url=service.url, limits=limits, timeout=120) as client:

        async def watch() -> None:
            while time.monotonic() < until:
                figures.mib.append(service.resident_mib())
                figures.tree_mib.append(usage(service.process.pid).resident_mib)
                await asyncio.sleep(0.5)

        calls = (Caller(client, figures, seed).call(until) for seed in range(callers))
        await asyncio.gather(watch(), *calls)
    return figures


def main() -> None:
    """Print the figures of a service under 50 callers."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder, running(Path(folder)) as service:
        figures = asyncio.run(hammer(service, 50, float(sys.argv[1])))
    mib = figures.mib
    tenth = max(1, len(mib) // 10)
    found = {
        "answers": dict(sorted(figures.answers.items())),
        "wrong": figures.wrong,
        "mib_by_tenths": [max(mib[i : i + tenth]) for i in range(0, len(mib), tenth)],
        "tree_mib_by_tenths": [
            max(figures.tree_mib[i : i + tenth]) for i in range(0, len(mib), tenth)
        ],
    }
    sys.stdout.write(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
