"""The page of the command line: each option has an example there, and each example works."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from placewright.cli.app import main
from placewright.cli.commands import app_with
from placewright.instances.benchmark.index import best_plan, read_index
from placewright.instances.io.files import parse_edits, parse_round, write

ROOT = Path(__file__).parents[1]
DATA = ROOT / "tests" / "data"
PAGE = (ROOT / "docs" / "cli.md").read_text()
EXAMPLES = [
    line.partition(" # ")[0].strip()
    for block in re.findall(r"^```sh\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL)
    for line in block.splitlines()
]
OF_THE_PROGRAM = ("--help", "--version", "--install-completion", "--show-completion")
IN_A_SHELL = ("|", ">")


def commands(group: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield the words of each verb, and the verb."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*words, name))
        else:
            yield (*words, name), command


VERBS = dict(commands(typer.main.get_command(app_with())))


def options_in(verb: tuple[str, ...]) -> set[str]:
    """Return the words that examples of a verb have."""
    used: set[str] = set()
    for line in EXAMPLES:
        for part in re.split(r" (?:\||&&|>) ", line):
            words = shlex.split(part)
            if tuple(words[1 : 1 + len(verb)]) == verb:
                used.update(words)
    return used


@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
def test_each_option_of_a_verb_has_an_example_and_its_synopsis(verb):
    used = options_in(verb)
    assert used, "no example"
    for parameter in VERBS[verb].params:
        names = parameter.opts
        if parameter.param_type_name != "option" or set(names) & set(OF_THE_PROGRAM):
            continue
        assert used & set(names), names
        assert any(name in PAGE for name in names), names


def test_completion_is_explained():
    assert "--install-completion" in PAGE
    assert "--show-completion" in PAGE


HOST = {"gpus": 8, "gpu_model": "H100"}
TASKS = [{"index": i, "host": f"h{i}", "gpus": list(range(8))} for i in range(4)]
EDITS = {
    "apiVersion": "placewright/v1alpha2",
    "kind": "Edits",
    "edits": [{"fail": ["h4"]}, {"job": {"sweep": {"count": 2}}}],
}
ROUND = {
    "apiVersion": "placewright/v1alpha2",
    "kind": "Round",
    "name": "examples",
    "cluster": {
        "levels": ["rack"],
        "domains": [{"name": "r0", "level": "rack"}, {"name": "r1", "level": "rack"}],
        "hosts": [
            {"name": "h[0-7]", "parent": "r0", **HOST},
            {"name": "h[8-15]", "parent": "r1", **HOST},
        ],
        "pools": [
            {"resource": "power_w", "level": "rack", "capacity": 70_000},
            {"resource": "power_w", "capacity": 120_000},
        ],
    },
    "tenants": [{"name": "research", "quota": {"gpu": 128}}],
    "caps": {"lab": {"gpus": 64}},
    "reservations": [{"host": "h15"}],
    "jobs": [
        {
            "name": "train",
            "options": [{"groups": [{"count": 4, "gpu": 8}]}],
            "running": {"tasks": TASKS, "restart_s": 60},
        },
        {"name": "pretrain", "priority": 1, "options": [{"groups": [{"count": 10, "gpu": 8}]}]},
        {"name": "sweep", "options": [{"groups": [{"count": 4, "gpu": 8}]}]},
    ],
}

OWN_POLICY = """
from placewright.rounds.policies.base import ListPolicy
laxity = ListPolicy("laxity", lambda jobs: jobs.deadline_us, frozenset({"deadline_us"}))
"""

JOB_SET = """
kind: JobSet
metadata:
  name: set
  annotations: {alpha.jobset.sigs.k8s.io/exclusive-topology: example.com/rack}
spec:
  replicatedJobs:
    - name: workers
      replicas: 2
      template:
        spec:
          parallelism: 2
          template: {spec: {containers: [{resources: {limits: {nvidia.com/gpu: 8}}}]}}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the files that the examples name."""
    here = tmp_path_factory.mktemp("examples")
    for file in (*DATA.glob("*/*.csv"), *DATA.glob("*/*.json")):
        if file.parent.name != "itp" or not (DATA / "elasticflow" / file.name).exists():
            shutil.copyfile(file, here / file.name)  # examples write files of such names
    (here / "wan").symlink_to(DATA / "wan")
    (here / "dump").symlink_to(DATA / "slurm" / "v0.0.44")
    (here / "hivedscheduler.yaml").symlink_to(DATA / "hived" / "hivedscheduler.yaml")
    (here / "ibnetdiscover.txt").symlink_to(DATA / "fabric" / "ibnetdiscover.txt")
    for name in ("throughput", "rtt", "egress"):
        (found,) = (DATA / "wan").glob(f"*{name}*.csv")
        (here / f"{name}.csv").symlink_to(found)
    (here / "profiles.csv").write_text("model,num_gpu,iter_ms\nbert,1,100\nbert,2,110\n")
    write(parse_round(ROUND), here / "round.yaml")
    write(parse_edits(EDITS), here / "edits.yaml")
    (here / "trace.csv").write_text(
        "submit_s,gpus,duration_s,tenant\n0,4,100,vision\n5,8,30.5,speech\n9,1,60,vision\n"
    )
    (here / "sizes.csv").write_text(
        "submit_s,gpus,duration_s,speed:2,speed:4:V100\n0,2,100,1,1.8\n5,2,30.5,1,1.3\n"
    )
    (here / "outages.csv").write_text("host,begin_s,end_s,planned\n0,10,50,\n1,40,60,1\n")
    (here / "mine.py").write_text(OWN_POLICY)
    (here / "topo.txt").symlink_to(DATA / "gpu-links" / "pairs.txt")
    (here / "pipelines.yaml").symlink_to(ROOT / "instances/library/acme-evaluation.yaml")
    (here / "project.sm").symlink_to(DATA / "psplib" / "project.sm")
    (here / "token").write_text("a-token-of-the-tests\n")
    (here / "mast-replicas.yaml").symlink_to(ROOT / "instances" / "library" / "mast-replicas.yaml")
    (here / "task.yaml").write_text("resources: {accelerators: [H100:8, H100:4]}\n")
    (here / "jobset.yaml").write_text(JOB_SET)
    (here / "job.yaml").write_text("{name: new, options: [{groups: [{gpu: 8}]}]}\n")
    (here / "policy.yaml").write_text("{backfill: null}\n")
    made = ("placewright generate cluster", "placewright generate round --policy geo")
    with contextlib.chdir(here):
        assert main(["solve", "round.yaml", "-o", "plan.json"]) == 0
        assert main(["solve", "round.yaml", "-o", "other.json", "--time-limit", "0"]) == 0
        edits = ["-e", "edits.yaml", "--edited", "edited.yaml", "-o", "after.json"]
        assert main(["whatif", "round.yaml", *edits]) == 0
        dump = ["nodes-pods.json", "queues.json"]
        assert main(["convert", "kubernetes", *dump, "-o", "k8s.json"]) == 0
        assert main(["solve", "k8s.json", "-o", "k8s-plan.json"]) == 0
        for policy in ("fifo", "srsf"):
            played = ["--policy", policy, "--hosts", "2x8", "-o", policy]
            assert main(["replay", "trace.csv", *played]) == 0
        for line in EXAMPLES:
            if line.startswith(made):
                assert main(shlex.split(line)[1:]) == 0
        write(best_plan(read_index()["bundled-pools"]), "bundled-pools.json")
        rows = ["--only", "bundled-pools", "--solver", "greedy", "-o", "results.jsonl"]
        assert main(["bench", *rows]) == 0
    return here


def of_day_or_night() -> Iterator[Any]:
    """Yield the examples: by day the first of each verb."""
    seen: set[tuple[str, ...]] = set()
    for line in EXAMPLES:
        words = tuple(word for word in line.split()[1:3] if word.isalpha())
        yield pytest.param(line, marks=[pytest.mark.nightly] if words in seen else [], id=line)
        seen.add(words)


@pytest.mark.parametrize("line", list(of_day_or_night()))
def test_each_example_works(folder, line, capfd, monkeypatch):
    monkeypatch.chdir(folder)
    for endless in ("live.serve.app.run", "live.watch.loop.watch"):
        monkeypatch.setattr(f"placewright.{endless}", lambda *_: None)
    monkeypatch.setattr(
        "placewright.live.watch.slurm.release_held", lambda **_: (0, [])
    )  # there is no Slurm
    if not any(f" {operator} " in line for operator in IN_A_SHELL):
        for part in line.split(" && "):
            assert main(shlex.split(part)[1:]) == 0, capfd.readouterr().err
        return
    program = f'placewright() {{ {shlex.quote(sys.executable)} -m placewright.cli.app "$@"; }}'
    done = subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", f"{program}\n{line}"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), *sys.path])},
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
