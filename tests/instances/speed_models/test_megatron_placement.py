"""The published shapes of Megatron-LM fit their clusters, and no tensor group leaves its NVLink."""

from __future__ import annotations

from functools import cache
from typing import Any

import networkx as nx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from examples import examples
from placewright.instances.checks.round import check_round
from placewright.instances.derived.arrays import build_cluster
from placewright.instances.documents.job import Job
from placewright.instances.documents.plan import Plan
from placewright.instances.documents.round import Round
from placewright.instances.speed_models.megatron import PUBLISHED, Published, Shape, Transformer
from placewright.instances.speed_models.megatron_placement import placed
from placewright.instances.verify import verify
from placewright.rounds import solve_round

Raw = dict[str, Any]
GIB = 1024
LINKS = {
    level: {"bandwidth_mbps": mbps, "latency_us": 1.0}
    for level, mbps in {"host": 100_000, "rack": 1_600_000, "block": 12_800_000}.items()
}


def tree(block: int, rack: int, hosts: int, model: str) -> Raw:
    """A cluster of hosts, `rack` of them in a rack and `block` in a block."""
    racks = -(-hosts // rack)
    return {
        "levels": ["block", "rack"],
        "domains": [
            *({"name": f"b{i}", "level": "block"} for i in range(-(-hosts // block))),
            *(
                {"name": f"k{i}", "level": "rack", "parent": f"b{i * rack // block}"}
                for i in range(racks)
            ),
        ],
        "hosts": [
            {"name": f"h{i}", "parent": f"k{i // rack}", "model": model} for i in range(hosts)
        ],
        "links": LINKS,
    }


def round_of(cluster: Raw, *jobs: Job) -> Round:
    policy = {"terms": ["value", "bottleneck", "spread"]}
    round_ = Round.model_validate(
        {"cluster": cluster, "jobs": [job.model_dump() for job in jobs], "policy": policy}
    )
    check_round(round_)
    return round_


def islands_of_tensor_groups(round_: Round, plan: Plan) -> list[set[int]]:
    """The NVLink components that the GPUs of each tensor group of each started job are in."""
    graph = build_cluster(round_.cluster).to_graph("gpu")
    nvlink = graph.edge_subgraph(
        [(a, b) for a, b, kind in graph.edges(data="kind") if kind == "nvlink"]
    )
    component = {gpu: i for i, part in enumerate(nx.connected_components(nvlink)) for gpu in part}
    found = []
    for decision in plan.decisions:
        tensor = int(decision.job.split("-")[0][1:])
        ranks = [
            ("gpu", task.host, gpu)
            for task in sorted(decision.tasks, key=lambda task: task.index)
            for gpu in task.gpus
        ]
        firsts = range(0, len(ranks), tensor)
        found += [{component[gpu] for gpu in ranks[first : first + tensor]} for first in firsts]
    return found


@pytest.mark.parametrize("row", PUBLISHED, ids=lambda row: f"{row.billions}B")
def test_each_published_shape_is_feasible_on_a_cluster_of_its_size(row: Published) -> None:
    option = placed(row.model, row.shape, batch=row.batch, gpu_memory_mib=80 * GIB)
    shape = row.shape
    job = Job(name=f"t{shape.tensor}-{row.billions}B", options=(option,))
    round_ = round_of(tree(32, 4, -(-shape.gpus // 8), "dgx-a100"), job)
    plan = solve_round(round_, time_limit=20.0, isolation="none")
    assert verify(round_, plan).ok
    assert plan.certificate is not None
    assert plan.certificate.degraded == ()
    assert [d.decision for d in plan.decisions] == ["start"]
    assert sum(len(t.gpus) for t in plan.decisions[0].tasks) == shape.gpus
    assert all(len(island) == 1 for island in islands_of_tensor_groups(round_, plan))


def test_the_stages_of_each_replica_of_the_trillion_parameters_share_a_block() -> None:
    row = PUBLISHED[-1]
    option = placed(
        row.model, row.shape, batch=row.batch, gpu_memory_mib=80 * GIB, pipeline="block"
    )
    round_ = round_of(tree(64, 4, 384, "dgx-a100"), Job(name="t8", options=(option,)))
    plan = solve_round(round_, time_limit=20.0, isolation="none")
    assert verify(round_, plan).ok
    block = {h.name: h.parent for h in round_.cluster.hosts}
    above = {d.name: d.parent for d in round_.cluster.domains}
    blocks = [above[str(block[t.host])] for t in sorted(plan.decisions[0].tasks, key=by_index)]
    replicas = [set(blocks[first : first + 64]) for first in range(0, 384, 64)]
    assert [len(replica) for replica in replicas] == [1] * 6
    assert len(set.union(*replicas)) == 6


def by_index(task: Any) -> int:
    return int(task.index)


def test_neighbours_in_a_pipeline_are_as_close_as_the_tree_allows() -> None:
    model = Transformer(layers=8, hidden=1024, heads=8)
    option = placed(model, Shape(8, 4, 2), batch=64, gpu_memory_mib=80 * GIB)
    round_ = round_of(tree(8, 4, 8, "dgx-h100"), Job(name="t8", options=(option,)))
    plan = solve_round(round_, isolation="none")
    racks = [int(t.host[1:]) // 4 for t in sorted(plan.decisions[0].tasks, key=by_index)]
    assert sorted(racks) in (racks, racks[::-1])  # each rack holds one replica


@pytest.mark.parametrize(
    ("shape", "options", "message"),
    [
        (Shape(8, 3, 1), {}, "8 layers are not divisible by pipeline 3"),
        (Shape(16, 1, 1), {"nvlink": ("rack", 72)}, ""),
        (Shape(16, 1, 1), {}, "tensor 16 is more than the 8 GPUs that NVLink connects"),
        (
            Shape(16, 2, 1),
            {"nvlink": ("rack", 72), "host_gpus": 4, "pipeline": "block"},
            "slices of two kinds; expected pipeline 'rack' or none",
        ),
        (
            Shape(8, 1, 1),
            {"nvlink": ("rack", 72), "host_gpus": 3},
            "tensor 8 on hosts of 3 GPUs leaves some idle",
        ),
        (Shape(1, 1, 1), {"gpu_memory_mib": 100}, "MiB per GPU are more than its 100"),
    ],
)
def test_a_shape_that_breaks_a_rule_is_no_option(shape: Shape, options: Raw, message: str) -> None:
    model = Transformer(layers=8, hidden=1024, heads=16)
    arguments = {"batch": 64, "gpu_memory_mib": 80 * GIB, **options}
    if not message:
        assert placed(model, shape, **arguments).milli_gpu == shape.gpus * 1000
        return
    with pytest.raises(ValueError, match=message):
        placed(model, shape, **arguments)


@cache
def cluster_of(kind: str) -> Raw:
    return tree(12, 4, 24, "dgx-a100") if kind == "dgx" else tree(36, 18, 72, "gb200-nvl72-tray")


@st.composite
def rounds(draw: st.DrawFn) -> Round:
    """Several jobs of random shapes on a cluster where some GPUs are held already."""
    kind = draw(st.sampled_from(["dgx", "nvl72"]))
    cluster = cluster_of(kind)
    host_gpus = 8 if kind == "dgx" else 4
    nvlink = ("host", 8) if kind == "dgx" else ("rack", 72)
    model = Transformer(layers=16, hidden=1152, heads=144)
    jobs = []
    for i in range(draw(st.integers(1, 4))):
        tensor = draw(st.sampled_from([1, 2, 4, 8] + ([16, 24, 36, 72] if kind == "nvl72" else [])))
        shape = Shape(tensor, draw(st.sampled_from([1, 2, 4])), draw(st.sampled_from([1, 2, 4])))
        option = placed(
            model,
            shape,
            batch=64,
            gpu_memory_mib=80 * GIB,
            host_gpus=host_gpus,
            nvlink=nvlink,
            pipeline=draw(st.sampled_from([None, nvlink[0]])) if tensor <= 4 else None,
        )
        jobs.append(Job(name=f"t{tensor}-{i}", options=(option,)))
    for host in draw(st.sets(st.integers(0, len(cluster["hosts"]) - 1), max_size=12)):
        raw = {
            "name": f"t1-running-{host}",
            "options": [{"groups": [{"gpu": 1}]}],
            "running": {"tasks": [{"host": f"h{host}", "gpus": [0]}], "pinned": True},
        }
        jobs.append(Job.model_validate(raw))
    return round_of(cluster, *jobs)


def test_tensor_groups_never_leave_an_nvlink_domain_in_any_plan() -> None:
    started = 0

    @settings(
        max_examples=examples(day=10, nightly=25),
        suppress_health_check=[HealthCheck.too_slow],
    )
    @given(rounds(), st.sampled_from([0.0, 2.0]))
    def check(round_: Round, seconds: float) -> None:
        nonlocal started
        plan = solve_round(round_, time_limit=seconds, isolation="none")
        assert verify(round_, plan).ok
        assert plan.certificate is not None
        assert plan.certificate.degraded == ()
        islands = islands_of_tensor_groups(round_, plan)
        assert all(len(island) == 1 for island in islands)
        started += sum(d.decision == "start" for d in plan.decisions)

    check()
    assert started > examples(day=8, nightly=20)
