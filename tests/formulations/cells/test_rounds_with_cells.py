"""Rounds with cells: jobs inside their cells start, and the rest is decided around them."""

from __future__ import annotations

from itertools import combinations, product
from random import Random
from typing import Any

import pytest
from displacers import with_displacers

from examples import examples
from fuzz.small_units import as_document
from placewright.instances.checks.round import check_round
from placewright.instances.documents.job import Job
from placewright.instances.documents.plan import Decision, DecisionKind, Plan, Reason, Task
from placewright.instances.documents.round import Round
from placewright.instances.verify import verify
from placewright.rounds import Changes, Engine, solve_round
from placewright.rounds.sections.moves import move_section
from placewright.rounds.solve import prove_bounds

Raw = dict[str, Any]
GONE = (DecisionKind.MIGRATE, DecisionKind.PREEMPT)
BACKENDS = ("highs", "cp-sat", "cbc", "scip")


def random_round(random: Random, *, most: int = 4) -> Round:
    """Two racks of one or two hosts of two GPUs; two tenants, one of which may own a rack."""
    racks = random.choice((1, 2, 2))
    size = random.choice((1, 2)) if racks == 2 else 2
    hosts = [
        {"name": f"h{r}{i}", "parent": f"r{r}", "gpus": 2, "gpu_model": "A", "cpu": 4}
        for r in range(racks)
        for i in range(size)
    ]
    tenants: list[Raw] = [{"name": "x", "cells": [{"level": "host"}]}, {"name": "y"}]
    if racks == 2 and random.random() < 0.6:
        tenants[1]["cells"] = [{"level": "rack"}]
    free = {host["name"]: [1000, 1000] for host in hosts}
    cpus = {host["name"]: 4 for host in hosts}
    jobs = []
    for k in range(random.randint(2, most)):
        gpu = random.choice((1000, 1000, 2000, 500))
        count = random.choice((1, 1, 2)) if gpu >= 1000 else 1
        group = {"gpu": gpu, "count": count, "cpu": random.choice((0, 1, 2))}
        job: Raw = {
            "name": f"j{k}",
            "tenant": random.choice(("x", "y", None)),
            "priority": random.randint(0, 2),
            "weight": random.randint(1, 2),
            "opportunistic": random.random() < 0.3,
            "options": [{"groups": [group]}],
        }
        if k < 2:  # one that is guaranteed, one that may be in its way
            job.update(tenant=("x", None)[k], opportunistic=False)
        owner = job["tenant"] == "x" or (job["tenant"] == "y" and "cells" in tenants[1])
        if random.random() < 0.7 and (not owner or job["opportunistic"]):
            tasks = []
            for i in range(count):
                able = [
                    (h, gpus)
                    for h in free
                    for gpus in combinations((0, 1), -(-gpu // 1000))
                    if all(free[h][g] >= min(gpu, 1000) for g in gpus) and cpus[h] >= group["cpu"]
                ]
                if able:
                    host, gpus = random.choice(able)
                    cpus[host] -= group["cpu"]
                    for g in gpus:
                        free[host][g] -= min(gpu, 1000)
                    tasks.append({"index": i, "host": host, "gpus": list(gpus)})
            if len(tasks) == count:
                job["running"] = {"tasks": tasks, "restart_s": random.choice((0, 1))}
                job["running"]["pinned"] = random.random() < 0.1
        jobs.append(job)
    round_ = Round.model_validate(
        as_document(
            {
                "cluster": {
                    "levels": ["rack"],
                    "domains": [{"name": f"r{r}", "level": "rack"} for r in range(racks)],
                    "hosts": hosts,
                },
                "tenants": tenants,
                "jobs": jobs,
                "policy": {"terms": ["value", "disruption", "spread", "opened"]},
            }
        )
    )
    check_round(round_)
    return round_


def ways(round_: Round, option: int, job: int) -> list[tuple[Task, ...]]:
    """Every way to place a job on hosts and GPUs, one group."""
    group = round_.jobs[job].options[option].groups[0]
    free_tasks = [
        Task.model_construct(group=0, index=0, host=host.name, gpus=gpus)
        for host in round_.cluster.hosts
        for gpus in combinations((0, 1), -(-group.gpu // 1000))
    ]
    return [
        tuple(task.model_copy(update={"index": i}) for i, task in enumerate(chosen))
        for chosen in product(free_tasks, repeat=group.count)
    ]


def rivals(round_: Round, plan: Plan) -> Any:
    """Every plan that has guaranteed jobs where a plan has them."""
    owners = {tenant.name for tenant in round_.tenants if tenant.cells}
    choices: list[list[Decision]] = []
    for j, job in enumerate(round_.jobs):
        if job.tenant in owners and not job.opportunistic:
            choices.append([plan.decisions[j]])
            continue
        mine = [
            Decision.model_construct(
                job=job.name,
                decision=DecisionKind.MIGRATE if job.running else DecisionKind.START,
                option=0,
                tasks=tasks,
            )
            for tasks in ways(round_, 0, j)
        ]
        if job.running is None:
            mine.append(Decision(job=job.name, decision=DecisionKind.WAIT))
        else:
            mine.append(
                Decision.model_construct(
                    job=job.name, decision=DecisionKind.KEEP, option=0, tasks=job.running.tasks
                )
            )
            mine.append(Decision(job=job.name, decision=DecisionKind.PREEMPT))
        choices.append(mine)
    cells = next(section for section in plan.sections if section["kind"] == "cells")
    for decisions in product(*choices):
        moves = move_section(round_, decisions)
        sections = (cells,) if moves is None else (moves, cells)
        plan = Plan.model_construct(round=None, decisions=decisions, sections=sections)
        yield with_displacers(round_, plan)


def size(round_: Round) -> int:
    """How many rivals a plan has at most."""
    number = 1
    for j, job in enumerate(round_.jobs):
        number *= len(ways(round_, 0, j)) + (1 if job.running is None else len(round_.jobs))
    return number


def best_of(round_: Round, plan: Plan) -> tuple[int, ...]:
    """The best values of all rivals, smaller is better."""
    found = (verify(round_, rival) for rival in rivals(round_, plan))
    return min(score_of(terms) for terms in (one.terms for one in found if one.ok))


def score(plan: Plan) -> tuple[int, ...]:
    return score_of({term.name: term.value for term in plan.certificate.terms})


def score_of(values: dict[str, int]) -> tuple[int, ...]:
    """The values of all terms in their order, smaller is better; `value` may stand for several."""
    return tuple(-v if name.startswith("value") else v for name, v in values.items())


@pytest.mark.nightly(after=1)
def test_no_plan_with_the_same_guaranteed_jobs_is_better_than_the_certificate_says():
    random = Random(5)
    met = evictions = 0
    for number in range(examples(day=8, nightly=80)):
        round_ = random_round(random, most=3)
        if size(round_) > 600:
            continue
        plan = solve_round(round_, backend=BACKENDS[number % 3], isolation="none")
        assert not plan.certificate.degraded
        assert verify(round_, plan).ok
        best = best_of(round_, plan)
        mine = score(plan)
        assert mine >= best
        first = plan.certificate.terms[0]
        assert first.bound is not None
        assert first.bound >= -best[0]
        if plan.certificate.status == "optimal":
            assert mine == best
        met += mine == best
        evictions += any(d.decision in GONE for d in plan.decisions)
        proven = prove_bounds(round_, plan, isolation="none")[0].bound
        assert proven is not None
        assert -best[0] <= proven
    assert met > examples(day=3, nightly=35)
    assert evictions > examples(day=0, nightly=8)


TERMS = (
    ("value", "disruption", "spread", "opened"),
    ("share", "value", "stranded"),
    ("value", "stranded", "entitled", "proximity", "leftover"),
    ("stranded", "share", "progress"),
)


@pytest.mark.nightly(after=1)
@pytest.mark.parametrize("backend", BACKENDS)
def test_random_rounds_have_valid_plans(backend):
    random = Random(BACKENDS.index(backend))
    for number in range(examples(day=4, nightly=16)):
        round_ = random_round(random, most=7)
        policy = round_.policy.model_copy(update={"terms": TERMS[number % 4]})
        round_ = round_.model_copy(update={"policy": policy})
        plan = solve_round(round_, backend=backend, isolation="none")
        assert verify(round_, plan).ok
        assert not plan.certificate.degraded
        assert all(term.bound is not None for term in plan.certificate.terms[:1])
        prove_bounds(round_, plan, isolation="none")


def cluster_of(racks: int, hosts: int = 0) -> Raw:
    """Racks of two hosts of two GPUs, and a rack each for single hosts."""
    sizes = [2] * racks + [1] * hosts
    return {
        "levels": ["rack"],
        "domains": [{"name": f"r{r}", "level": "rack"} for r in range(len(sizes))],
        "hosts": [
            {"name": f"h{r}[0-{size - 1}]", "parent": f"r{r}", "gpus": 2, "gpu_model": "A"}
            for r, size in enumerate(sizes)
        ],
    }


def asked(random: Random, name: str, tenant: str | None) -> Raw:
    gpu, count = random.choice(((1000, 1), (1000, 2), (2000, 1), (2000, 2), (2000, 2), (2000, 3)))
    group = {"gpu": gpu, "count": count}
    if count == 2 and random.random() < 0.5:
        group["required"] = "rack" if tenant == "x" else "host" if gpu == 1000 else "rack"
    return {"name": name, "tenant": tenant, "options": [{"groups": [group]}]}


@pytest.mark.nightly
def test_a_tenant_gets_in_a_shared_cluster_what_it_gets_in_one_of_its_own():
    """The same jobs, with and without other tenants and opportunistic jobs around them."""
    cells = {"x": [{"level": "rack", "count": 2}], "y": [{"level": "rack"}, {"level": "host"}]}
    cells["z"] = [{"level": "host"}]
    apart = {"y": [{"level": "rack", "within": "r0"}, {"level": "host", "within": "r1"}]}
    alike = cells | apart  # a rack and a single host are no cells of one chain
    own = {"x": cluster_of(2), "y": cluster_of(1, 1), "z": cluster_of(0, 1)}
    started = waited = displaced = 0
    for seed in range(6):
        random = Random(seed)
        tenants = [{"name": name, "cells": owned} for name, owned in cells.items()]
        shared = Engine(
            Round.model_validate(as_document({"cluster": cluster_of(4), "tenants": tenants})),
            isolation="none",
        )
        alone = {
            name: Engine(
                Round.model_validate(
                    as_document(
                        {"cluster": own[name], "tenants": [{"name": name, "cells": alike[name]}]}
                    )
                ),
                isolation="none",
            )
            for name in cells
        }
        for number in range(8):
            new = [asked(random, f"{t}-{number}", t) for t in random.sample("xyz", 2)]
            extra = asked(random, f"o-{number}", None)
            jobs = [Job.model_validate(as_document(raw)) for raw in new]
            mine = {t: [job for job in jobs if job.tenant == t] for t in cells}
            names = [job.name for job in shared.state.jobs]
            gone = [name for name in names if random.random() < 0.3]
            plan = shared.round(
                Changes(removed=gone, added=[*jobs, Job.model_validate(as_document(extra))])
            )
            assert not plan.certificate.degraded
            displaced += sum(d.decision in GONE for d in plan.decisions)
            runs = {job.name: job.running is not None for job in shared.state.jobs}
            for tenant, engine in alone.items():
                ours = {job.name for job in engine.state.jobs}
                engine.round(Changes(removed=[n for n in gone if n in ours], added=mine[tenant]))
                for job in engine.state.jobs:
                    assert runs[job.name] == (job.running is not None), (seed, number, job.name)
                    started += runs[job.name]
                    waited += not runs[job.name]
    assert started > 40
    assert waited > 10
    assert displaced > 5


def test_what_fails_is_not_claimed_and_the_rest_is_served():
    """A rack of a failed host is no cell; what runs in a cell whose host fails stays."""
    cluster = cluster_of(3)
    tenants = [
        {"name": "x", "cells": [{"level": "rack", "count": 2}]},
        {"name": "y", "cells": [{"level": "host", "count": 2}]},
    ]
    both = {"options": [{"groups": [{"gpu": 2000, "count": 2}]}]}
    one = {"options": [{"groups": [{"gpu": 2000}]}]}
    round_ = Round.model_validate(
        as_document(
            {
                "cluster": cluster,
                "tenants": tenants,
                "jobs": [{"name": "x0", "tenant": "x", **both}],
            }
        )
    )
    with Engine(round_, isolation="none") as engine:
        engine.round()
        held = engine.state.bindings[0].domain
        other = next(r for r in ("r0", "r1", "r2") if r != held)
        hosts = [f"h{held[1]}0", f"h{other[1]}0"]
        jobs = [
            Job.model_validate(as_document(raw))
            for raw in (
                {"name": "y0", "tenant": "y", **one},
                {"name": "y1", "tenant": "y", **one},
                {"name": "x1", "tenant": "x", **both},
            )
        ]
        changes = Changes(health=dict.fromkeys(hosts, False), added=jobs[:1])
        plan = engine.round(changes)
        assert verify(engine.round_solved, plan).ok
        decided = {d.job: d for d in plan.decisions}
        assert decided["x0"].decision is DecisionKind.KEEP
        # The smallest healthy cell that there is: what is left of the rack that failed.
        assert [task.host for task in decided["y0"].tasks] == [f"h{other[1]}1"]
        # Two claims of y and one of x are left for the third rack: first come, first served.
        plan = engine.round(Changes(added=jobs[1:]))
        assert verify(engine.round_solved, plan).ok
        decided = {d.job: d for d in plan.decisions}
        assert decided["y1"].decision is DecisionKind.START
        waits = decided["x1"]
        assert waits.reason is Reason.CAPACITY  # owned, but not to be had
        assert waits.detail is not None
        assert (waits.detail.level, waits.detail.cells, waits.detail.free) == ("rack", 1, 0)
        assert not plan.certificate.degraded


def test_a_tenants_quota_counts_what_its_opportunistic_jobs_hold():
    job: Raw = {"tenant": "x", "options": [{"groups": [{"gpu": 1000}]}]}
    running = {"tasks": [{"host": "h1", "gpus": [0]}]}
    round_ = Round.model_validate(
        as_document(
            {
                "cluster": {
                    "hosts": [{"name": f"h{i}", "gpus": 1, "gpu_model": "A"} for i in (0, 1)]
                },
                "tenants": [{"name": "x", "cells": [{"level": "host"}], "quota": {"gpu": 1000}}],
                "jobs": [
                    {**job, "name": "guaranteed"},
                    {**job, "name": "sweep", "opportunistic": True, "running": running},
                ],
            }
        )
    )
    check_round(round_)
    plan = solve_round(round_, isolation="none")
    waits, goes_on = plan.decisions
    assert (waits.decision, waits.reason) == (DecisionKind.WAIT, Reason.QUOTA)
    assert goes_on.decision is DecisionKind.KEEP


def test_leftover_counts_no_host_where_a_task_of_an_evicted_job_stays():
    """The second task of `back` moves on its host; the first one stays, and arrives nowhere."""
    hosts = [{"name": f"h{i}", "gpus": 2, "gpu_model": "A"} for i in range(4)]
    back = {
        "name": "back",
        "tenant": "u",
        "opportunistic": True,
        "options": [{"groups": [{"gpu": 0, "hosts": ["h1", "h2"]}, {"gpu": 1}]}],
        "running": {"tasks": [{"host": "h2"}, {"group": 1, "host": "h3", "gpus": [1]}]},
    }
    round_ = Round.model_validate(
        {
            "cluster": {"hosts": hosts},
            "tenants": [
                {"name": name, "cells": [{"level": "host", "count": 2}]} for name in ("t", "u")
            ],
            "jobs": [
                back,
                {"name": "first", "tenant": "t", "options": [{"groups": [{"gpu": 1}]}]},
            ],
            "policy": {"terms": ["value", "leftover"]},
        }
    )
    check_round(round_)
    moved = (Task(host="h2"), Task(group=1, host="h3", gpus=(0,)))
    plan = Plan(
        decisions=(
            Decision(job="back", decision=DecisionKind.MIGRATE, option=0, tasks=moved),
            Decision(
                job="first",
                decision=DecisionKind.START,
                option=0,
                tasks=(Task(host="h3", gpus=(1,)),),
            ),
        ),
        sections=(
            {"kind": "moves", "steps": ["back"], "needs_spare": []},
            {
                "kind": "cells",
                "bindings": [
                    {"tenant": "t", "cell": 0, "level": "host", "domain": "h3", "jobs": ["first"]}
                ],
            },
        ),
    )
    result = verify(round_, plan)
    assert result.violations == ()
    assert result.terms["leftover"] == 0
    *_, leftover = prove_bounds(round_, plan, isolation="none")
    assert leftover.bound == 0


@pytest.mark.parametrize("host", ["h0", "h1", "h2"])
def test_a_job_that_names_hosts_gets_a_cell_there(host: str) -> None:
    hosts = [{"name": f"h{i}", "gpus": 1, "gpu_model": "A"} for i in range(3)]
    round_ = Round.model_validate(
        as_document(
            {
                "cluster": {"levels": [], "domains": [], "hosts": hosts},
                "tenants": [{"name": "x", "cells": [{"level": "host"}]}],
                "jobs": [
                    {
                        "name": "job",
                        "tenant": "x",
                        "options": [{"groups": [{"gpu": 1000, "hosts": [host]}]}],
                    }
                ],
                "policy": {"terms": ["value"]},
            }
        )
    )
    (decision,) = solve_round(round_, isolation="none").decisions
    assert [task.host for task in decision.tasks] == [host]


@pytest.mark.parametrize("limit", ["caps", "quota"])
def test_an_evicted_job_may_run_on_beyond_a_limit_that_it_exceeded_before(limit: str) -> None:
    """It is in nobody's way elsewhere, where one that is worth less makes room for it."""
    gang = {
        "name": "gang",
        "options": [{"groups": [{"gpu": 0.7, "count": 2}]}],
        "running": {
            "tasks": [{"host": "h3", "gpus": [0]}, {"host": "h0", "gpus": [0], "index": 1}]
        },
        **({"caps": ["c"]} if limit == "caps" else {"tenant": "u"}),
    }
    guest = {
        "name": "guest",
        "options": [{"groups": [{"gpu": 1}]}],
        "opportunistic": True,
        "running": {"tasks": [{"host": "h1", "gpus": [0]}]},
    }
    first = {"name": "first", "options": [{"groups": [{"gpu": 1, "count": 2}]}], "tenant": "t"}
    tenants = [{"name": "t", "cells": [{"level": "host", "count": 2}]}]
    round_ = Round.model_validate(
        {
            "cluster": {
                "hosts": [{"name": f"h{i}", "gpus": 1, "gpu_model": "A"} for i in range(4)]
            },
            "jobs": [first, gang, guest],
            "tenants": [*tenants, *([{"name": "u", "quota": {"gpu": 1}}] * (limit == "quota"))],
            "caps": {"c": {"gpus": 1}} if limit == "caps" else {},
            "policy": {"terms": ["value"]},
        }
    )
    check_round(round_)
    plan = solve_round(round_, isolation="none")
    assert verify(round_, plan).ok
    assert plan.certificate is not None
    assert [(term.value, term.bound) for term in plan.certificate.terms] == [
        (2000, 2000),
        (0, 0),
        (-1000, -1000),
    ]
