"""The bundled rounds of systems with menus: their answers by brute force, their menus remade."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from textwrap import dedent
from typing import Any, NamedTuple

import pytest

from placewright.instances import load_round, return_hosts
from placewright.instances import verify as verification
from placewright.instances.derived.hardware import hardware
from placewright.instances.derived.ranges import expand
from placewright.instances.documents.option import Option, TaskGroup
from placewright.instances.documents.round import Round
from placewright.instances.speed_models import (
    afs,
    comet,
    gavel,
    lyra,
    ones,
    oobleck,
    pollux,
    sia,
    synergy,
)

LIBRARY = Path(verification.__file__).parents[1] / "library"
PROFILES = Path(__file__).parents[4] / "shared" / "data" / "profiles"
NAMES = (
    "gavel",
    "pollux",
    "sia",
    "afs",
    "ones",
    "lyra-growth",
    "synergy-points",
    "comet",
    "oobleck",
    "cachew",
)


def load(name: str) -> Round:
    return load_round(LIBRARY / f"{name}.yaml")


def stated(name: str) -> dict[str, int]:
    text = (LIBRARY / f"{name}.yaml").read_text(encoding="utf-8")
    (answer,) = re.findall(r"^# Answer: (.*)$", text, flags=re.MULTILINE)
    return {term: int(amount) for term, amount in (part.split() for part in answer.split(", "))}


class Host(NamedTuple):
    """A host and what it has left; per GPU the milli-GPU and MiB that are free, sorted."""

    kind: str
    model: str
    cpu: int
    memory: int
    gpus: tuple[tuple[int, int], ...]


Hosts = tuple[Host, ...]


def hosts_of(round_: Round) -> Hosts:
    """Healthy hosts less what runs; names count only where some group lists hosts."""
    groups = [g for job in round_.jobs for o in job.options for g in o.groups]
    named = any(group.hosts for group in groups)
    hosts = []
    for entry in round_.cluster.hosts:
        has = hardware(entry)
        for name in expand(entry.name) if entry.healthy else ():
            gpus = [(1000, entry.gpu_memory or 0)] * has.gpus
            for job in round_.jobs:
                for task in job.running.tasks if job.running else ():
                    for gpu in task.gpus if task.host == name else ():
                        gpus[gpu] = (0, 0)
            cpu, memory = has.capacity["cpu"], has.capacity["memory"]
            kind = name if named else ""
            hosts.append(Host(kind, has.gpu_model or "", cpu, memory, tuple(sorted(gpus))))
    return tuple(sorted(hosts))


def after_task(host: Host, group: TaskGroup) -> Iterator[Host]:
    """Yield the host in each way in which a task can be on it."""
    cpu, memory = host.cpu - group.cpu, host.memory - group.memory
    allowed = group.gpu_models is None or host.model in group.gpu_models
    listed = group.hosts is None or host.kind in {n for h in group.hosts for n in expand(h)}
    if not (allowed and listed) or min(cpu, memory) < 0:
        return
    each, number = min(group.gpu, 1000), max(1, group.gpu // 1000) if group.gpu else 0
    fitting = [i for i, (m, v) in enumerate(host.gpus) if m >= each and v >= group.gpu_memory]
    for chosen in combinations(fitting, number):
        gpus = list(host.gpus)
        for i in chosen:
            gpus[i] = (gpus[i][0] - each, gpus[i][1] - group.gpu_memory)
        yield host._replace(cpu=cpu, memory=memory, gpus=tuple(sorted(gpus)))


def after_option(hosts: Hosts, option: Option) -> set[Hosts]:
    """All that an option can leave; equal hosts are one, so they are kept sorted."""
    states = {hosts}
    for group in option.groups:
        assert group.required in (None, "host")
        # A group of a required host is tried on each host alone.
        tries = range(len(hosts)) if group.required else [None]
        following: set[Hosts] = set()
        for only in tries:
            ways = {(state, state if only is None else (state[only],)) for state in states}
            for _ in range(group.count):
                ways = {
                    (whole, tuple(sorted((*part[:h], after, *part[h + 1 :]))))
                    for whole, part in ways
                    for h in range(len(part))
                    for after in after_task(part[h], group)
                }
            for whole, part in ways:
                rest = () if only is None else (*whole[:only], *whole[only + 1 :])
                following.add(tuple(sorted((*rest, *part))))
        states = following
    return states


def every_plan(round_: Round) -> set[tuple[int, ...]]:
    """The terms of all plans, in the policy's order."""
    states: dict[Hosts, set[tuple[int, int]]] = {hosts_of(round_): {(0, 0)}}
    for job in round_.jobs:
        if job.running is not None:
            continue
        following = {hosts: set(sums) for hosts, sums in states.items()}
        for hosts, sums in states.items():
            for number, option in enumerate(job.options):
                gain = job.value_of(number), option.progress
                more = {(value + gain[0], progress + gain[1]) for value, progress in sums}
                for after in after_option(hosts, option):
                    following.setdefault(after, set()).update(more)
        states = following
    at = {"value": 0, "progress": 1}
    return {
        tuple(both[at[term]] for term in round_.policy.terms)
        for sums in states.values()
        for both in sums
    }


@pytest.mark.parametrize("name", NAMES)
def test_no_plan_beats_the_answer_of_an_example(name: str) -> None:
    round_ = load(name)
    answer = stated(name)
    assert tuple(answer) == round_.policy.terms
    assert max(every_plan(round_)) == tuple(answer.values())


def test_the_next_best_plans_are_those_that_the_comments_tell() -> None:
    assert sorted(every_plan(load("gavel")))[-2] == (7466,)
    assert (3, 7800) in every_plan(load("lyra-growth"))
    assert (3, 1964) in every_plan(load("afs"))  # by AFS's own rule


def test_the_cheapest_hosts_to_return_are_no_greedy_choice() -> None:
    round_ = load("lyra-return")
    running = tuple(job for job in round_.jobs if job.running)
    costs = {}
    for chosen in combinations([f"inf{h}" for h in range(5)], 3):
        there = [j for j in running if j.running and {t.host for t in j.running.tasks} & {*chosen}]
        costs[chosen] = sum(
            (job.running.preempt_cost or 0) + job.options[0].milli_gpu
            for job in there
            if job.running is not None
        )
    assert (
        min(costs.values()) == costs["inf0", "inf1", "inf4"] == stated("lyra-return")["disruption"]
    )
    assert costs["inf2", "inf3", "inf4"] == 85_000 + 12_000
    before = round_.model_copy(update={"jobs": running})
    assert return_hosts(before, ["inf[0-4]"], 3) == round_


def menus(name: str) -> dict[str, tuple[Option, ...]]:
    return {job.name: job.options for job in load(name).jobs if job.running is None}


def profile(name: str) -> Path:
    path = PROFILES / name
    if not path.is_file():
        pytest.skip("the published tables are not here")
    return path


def test_the_menus_of_gavel_are_those_of_its_table() -> None:
    table = json.loads(profile("gavel/simulation_throughputs.json").read_text())
    jobs = {
        "transformer": ("Transformer (batch size 64)", 4),
        "resnet-50": ("ResNet-50 (batch size 64)", 4),
        "lm": ("LM (batch size 80)", 2),
        "recommender": ("Recommendation (batch size 1024)", 1),
    }
    made = {}
    for name, (kind, gpus) in jobs.items():
        per = gavel.equal_share(table, kind, gpus, {"v100": 8, "p100": 4})
        models = {"v100": "V100", "p100": "P100"}
        made[name] = gavel.options(table, kind, gpus, models, per=per, scale=1000 * gpus)
    assert menus("gavel") == made


def test_the_menus_of_sia_are_those_of_its_goodputs() -> None:
    slow = {("t4", 1): 1.0, ("t4", 2): 1.5625, ("t4", 4): 2.25}
    goodputs = {
        "resnet50": slow | {("a100", 1): 4.0, ("a100", 2): 6.25},
        "bert": slow | {("a100", 1): 6.25, ("a100", 2): 9.0},
        "cifar10": slow | {("t4", 8): 1.875**2, ("a100", 1): 1.5625, ("a100", 2): 2.25},
    }
    hosts = {"t4": 4, "a100": 2}
    assert menus("sia") == {name: sia.options(of, hosts) for name, of in goodputs.items()}
    assert {size for model, size in goodputs["cifar10"] if model == "t4"} == {*sia.sizes(4, 2, 8)}
    assert (3, 1333 + 667 + 667) in every_plan(load("sia"))


def test_the_menus_of_pollux_are_those_of_its_tables() -> None:
    made = {}
    some = {(1,), (2,), (4,), (1, 1), (2, 2), (4, 4)}
    for name, noise, batch in (
        ("imagenet", 10_000, 200),
        ("cifar10", 1000, 128),
        ("bert", 200, 12),
    ):
        with profile(f"pollux/{name}_placements.csv").open() as lines:
            steps = [step for step in pollux.read_steps(lines) if step.gpus in some]
        made[name] = pollux.options(steps, noise=noise, initial_batch=batch)
    assert menus("pollux") == made


def test_the_menus_of_synergy_are_those_of_its_matrices() -> None:
    table = json.loads(profile("synergy/cpu_mem_sensitivity_1gpu.json").read_text())
    models = {"alexnet": "alexnet_1", "resnet-18": "res18_1", "bert": "bert_1", "gnmt": "gnmt_1"}
    made = {name: synergy.options(table[model]["tput"], 1) for name, model in models.items()}
    assert menus("synergy-points") == made


def test_the_menus_of_the_other_examples_follow_from_their_comments() -> None:
    curves = {"a": (10, 15, 19, 21), "b": (10, 18, 24, 26), "c": (10, 18, 26, 29)}
    assert menus("afs") == {
        name: afs.options(dict(enumerate(curve, 1))) for name, curve in curves.items()
    }
    fast = {1: 1.0, 2: 1.8}
    assert menus("ones") == {
        name: ones.options(speeds, samples_done=done, progress=share, horizon_s=3600)
        for name, speeds, done, share in (
            ("young", fast, 1200, 1 / 4),
            ("middle", fast, 1800, 1 / 2),
            ("old", {1: 1.0}, 2700, 3 / 4),
        )
    }
    own, loaned = (TaskGroup(gpu=1, hosts=(host,)) for host in ("train0", "inf0"))
    assert menus("lyra-growth") == {
        name: lyra.options(work, base, 4, worker=own, flexible=loaned)
        for name, work, base in (("bert", 14_400, 2), ("resnet", 7200, 1), ("gnmt", 3600, 2))
    }
    configurations = [
        comet.Configuration("keep", 1.0),
        comet.Configuration("compress", 0.1, slowdown=1.5),
    ]
    assert menus("comet") == {
        name: comet.options(training, configurations, 1, per=10, most_batch=16, share=500)
        for name, training in (
            ("vgg", comet.Training(8000, 1000, 0.1, 0.1)),
            ("inception", comet.Training(6000, 800, 0.08, 0.05)),
            ("resnet", comet.Training(4000, 500, 0.05, 0.025)),
            ("bert", comet.Training(12_000, 2000, 0.2, 0.1)),
        )
    }
    pipelines = oobleck.pipelines(3, oobleck.template_sizes(13, 2, 2), TaskGroup(gpu=4))
    assert menus("oobleck") == {job.name: job.options for job in pipelines}


def test_the_example_of_the_library_page_runs_and_says_what_it_gives() -> None:
    page = (Path(__file__).parents[3] / "docs" / "library.md").read_text(encoding="utf-8")
    section = page.split("## Menus\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("    ")]
    names: dict[str, Any] = {}
    exec(dedent("\n".join(lines)), names)
    assert names["sizes"] == {"short": 3, "long": 4}
