"""Teams of hosts that keep each other's checkpoints: most of them in different racks."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from typer.testing import CliRunner

from placewright import Round, protect, replica_teams, verify, write
from placewright.cli.commands import app_with
from placewright.instances.errors import InvalidInputError
from placewright.rounds.protection import cliques, ranks_of

GPUS = 8


def round_of(racks: Sequence[int], jobs: Mapping[str, Sequence[int]], memory: str) -> Round:
    """Return racks of so many hosts, and jobs that run on so many whole hosts of each rack."""
    hosts = [
        {"name": f"r{r}h{i}", "gpus": GPUS, "gpu_model": "x", "memory": memory, "parent": f"r{r}"}
        for r, number in enumerate(racks)
        for i in range(number)
    ]
    used = [0] * len(racks)
    running = []
    for name, numbers in jobs.items():
        mine = [f"r{r}h{used[r] + i}" for r, n in enumerate(numbers) for i in range(n)]
        used = [u + n for u, n in zip(used, numbers, strict=True)]
        tasks = [{"index": i, "host": h, "gpus": [*range(GPUS)]} for i, h in enumerate(mine)]
        options = [{"groups": [{"count": len(mine), "gpu": GPUS}]}]
        running.append({"name": name, "options": options, "running": {"tasks": tasks}})
    domains = [{"name": f"r{r}", "level": "rack"} for r in range(len(racks))]
    cluster = {"levels": ["rack"], "domains": domains, "hosts": hosts}
    return Round.model_validate({"cluster": cluster, "jobs": running})


def test_teams_are_in_different_racks_where_they_can_be() -> None:
    found = protect(round_of((8, 4, 4), {"a": (6, 2, 2), "b": (2, 2, 2)}, "1Ti"), 2, "rack", 1024)
    assert verify(found.round, found.plan).ok
    assert [sum(one.is_apart for one in job.sets) for job in found.jobs] == [4, 3]
    assert [len(job.sets) for job in found.jobs] == [5, 3]
    assert (found.apart, found.most_apart) == (7, 7)
    a, b = found.jobs
    assert (a.fatal, b.fatal) == (("r0",), ())
    assert a.unprotected == ()
    assert b.chances[1].value == pytest.approx(12 / 15)


def test_ranks_of_pairs_are_a_stride_apart() -> None:
    found = protect(round_of((2, 2), {"a": (2, 2)}, "1Ti"), 2, "rack", 1024)
    # Hosts are in the order of the racks, so that a pair is two hosts of 8 ranks apart.
    first, second = (one.ranks for one in found.jobs[0].sets)
    assert first == tuple((rank, rank + 16) for rank in range(8))
    assert second == tuple((rank, rank + 16) for rank in range(8, 16))


def test_neighbours_in_pairs_are_cliques_of_stride_8() -> None:
    round_ = round_of((4,), {"a": (4,)}, "1Ti")
    ranks = ranks_of(round_.jobs[0])
    found = cliques(("r0h0", "r0h1"), ranks) + cliques(("r0h2", "r0h3"), ranks)
    assert found == tuple((rank, rank + 8) for rank in (*range(8), *range(16, 24)))


def test_the_last_hosts_share_one_team() -> None:
    found = protect(round_of((3, 2, 2), {"a": (3, 2, 2)}, "1Ti"), 3, "rack", 1024)
    (job,) = found.jobs
    assert len(job.sets) == 1 + 4
    assert sorted(owner for one in job.sets for owner in one.owners) == sorted(job.hosts)
    assert job.fatal == ()


def test_hosts_without_memory_are_unprotected() -> None:
    found = protect(round_of((2, 2), {"a": (2, 2)}, "4Gi"), 2, "rack", 4096)
    (job,) = found.jobs
    assert (job.sets, job.unprotected) == ((), job.hosts)
    assert [chance.value for chance in job.chances] == [0, 0, 0, 0]


@pytest.mark.parametrize(
    ("copies", "level", "memory", "job", "said"),
    [
        (1, "rack", 1, None, "copies: 1: expected 2 to 8"),
        (2, "rock", 1, None, "level: 'rock': unknown level"),
        (2, "rack", 0, None, "memory: 0: expected 1 to 1,000,000,000"),
        (2, "rack", 1, ["b"], "job: 'b': unknown job"),
        (2, "rack", 1, "ab", "job: 'ab': expected a list of jobs"),
        (5, "rack", 1, ["a"], "job: 'a': runs on 4 hosts; expected a job on 5 hosts or more"),
    ],
)
def test_what_cannot_be_is_refused(
    copies: int, level: str, memory: int, job: list[str] | str | None, said: str
) -> None:
    with pytest.raises(InvalidInputError, match=said):
        replica_teams(round_of((2, 2), {"a": (2, 2)}, "1Ti"), copies, level, memory, job)


def test_the_verb_prints_and_writes_who_keeps_what(tmp_path: Path) -> None:
    write(round_of((8, 4, 4), {"a": (6, 2, 2)}, "1Ti"), str(tmp_path / "round.yaml"))
    options = ["--copies", "2", "--level", "rack", "--memory", "64Gi"]
    words = ["protect", str(tmp_path / "round.yaml"), *options, "-o", str(tmp_path / "teams.json")]
    result = CliRunner().invoke(app_with(), words)
    assert result.exit_code == 0, result.output
    assert "4 teams in different domains; no plan has more than 4" in result.output
    written = json.loads((tmp_path / "teams.json").read_text())
    (job,) = written["jobs"]
    assert len(job["sets"]) == 5
    assert all(len(one["ranks"]) == GPUS for one in job["sets"])


def test_the_verb_names_a_job_without_a_copy_and_the_memory_that_one_needs(tmp_path: Path) -> None:
    write(round_of((2, 2), {"a": (2, 2)}, "4Gi"), str(tmp_path / "round.yaml"))
    options = ["--copies", "3", "--level", "rack", "--memory", "4Gi"]
    result = CliRunner().invoke(app_with(), ["protect", str(tmp_path / "round.yaml"), *options])
    assert result.output.splitlines()[0].strip() == "a: 4 hosts"
    assert "without a copy elsewhere: " in result.output
    assert result.output.splitlines()[3].endswith("; who keeps one needs 16Gi free")
