"""Links between GPUs decide: known answers, best sets of GPUs, and rounds one after another."""

from __future__ import annotations

from itertools import combinations, pairwise, permutations
from random import Random
from typing import Any

import networkx as nx
import numpy as np
import pytest
from gang_parameters import set_parameters

from placewright.formulations.gang.problem.gpu_links import LinkTables, LinkTask, bits, set_of
from placewright.instances import verify as verification
from placewright.instances.documents.arrangement import GpuLinkRequest
from placewright.instances.documents.plan import Plan
from placewright.instances.documents.round import Round
from placewright.instances.io.files import load_round
from placewright.rounds import Changes, Engine, solve_round
from placewright.topology import LINK_MATRICES, GpuLinks
from placewright.topology.gpu_links import canonical_form, pairs_in, slowest_link
from tests.instances.test_library import LIBRARY

Raw = dict[str, Any]
BACKENDS = ("highs", "cp-sat", "cbc", "scip")
NEAR = {"kind": "numa", "bandwidth_mbps": 250_000}
FAR = {"kind": "system", "bandwidth_mbps": 170_000}
PAIR = {"kind": "nvlink", "bandwidth_mbps": 450_000}


def matrix(gpus: int, pairs: list[tuple[int, int]], nodes: int = 1, **classes: Raw) -> Raw:
    """Pairs joined by NVLink, GPUs of one NUMA node by N, others by S."""

    def word(i: int, j: int) -> str:
        if i == j:
            return "X"
        if (min(i, j), max(i, j)) in pairs:
            return "P"
        return "N" if i * nodes // gpus == j * nodes // gpus else "S"

    rows = [" ".join(word(i, j) for j in range(gpus)) for i in range(gpus)]
    return {"name": "m", "classes": {"P": PAIR, "N": NEAR, "S": FAR} | classes, "gpus": rows}


def job(name: str, gpus: int, links: Raw | None = None, **fields: Any) -> Raw:
    group: Raw = {"gpu": gpus} | ({} if links is None else {"gpu_links": links})
    return {"name": name, "options": [{"groups": [group]}], **fields}


def runs(gpus: list[int], **fields: Any) -> Raw:
    return {"running": {"tasks": [{"host": "h", "gpus": gpus}], **fields}}


def one_host(links: Raw, *jobs: Raw) -> Round:
    host = {"name": "h", "gpus": len(links["gpus"]), "gpu_model": "A40", "gpu_links": "m"}
    terms = ["value", "gpu_links"]
    cluster = {"hosts": [host], "gpu_links": [links]}
    return Round.model_validate({"cluster": cluster, "jobs": jobs, "policy": {"terms": terms}})


PAIRS = matrix(8, [(0, 1), (2, 3), (4, 5), (6, 7)], 2)
OTHERS: dict[str, tuple[Round, dict[str, int]]] = {
    "links of at least some width, along a path": (
        one_host(matrix(3, [(0, 2)]), job("j", 3, {"at_least_mbps": 250_000, "joined": "path"})),
        {"value": 3000, "gpu_links": 250_000},
    ),
    "a running job moves to a pair": (
        one_host(PAIRS, job("j", 2, {}, **runs([1, 2]))),
        {"value": 0, "gpu_links": 450_000},
    ),
}


def gpus_of(plan: Plan, name: str) -> tuple[int, ...]:
    (decision,) = [d for d in plan.decisions if d.job == name]
    return tuple(sorted(gpu for task in decision.tasks for gpu in task.gpus))


def decide(round_: Round, backend: str) -> Plan:
    """Solve, verify, and look at proofs: each term has its bound."""
    plan = solve_round(round_, backend=backend, gap=0.0, isolation="none")
    assert verification.verify(round_, plan).ok
    assert plan.certificate is not None
    assert [t.value for t in plan.certificate.terms] == [t.bound for t in plan.certificate.terms]
    return plan


def values(plan: Plan) -> dict[str, int]:
    assert plan.certificate is not None
    return {term.name: term.value for term in plan.certificate.terms}


BUNDLED = {
    "gpu-pairs": {"value": 8000, "gpu_links": 896_000, "opened": 1},
    "gpu-pairs-across": {"value": 6000, "gpu_links": 896_000},
    "gpu-links-unknown": {"value": 2000, "gpu_links": 400_000},
    "gpu-links-five-free": {"value": 3000, "gpu_links": 252_000},
    "gpu-links-numa": {"value": 8000, "gpu_links": 680_000},
    "gpu-links-cube-mesh": {"value": 7000, "gpu_links": 1_000_000},
}
ANSWERS = OTHERS | {
    name: (load_round(LIBRARY / f"{name}.yaml"), terms) for name, terms in BUNDLED.items()
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", ANSWERS)
def test_a_known_answer_is_found_and_proven(name: str, backend: str) -> None:
    round_, terms = ANSWERS[name]
    assert values(decide(round_, backend)) == terms


@pytest.mark.parametrize("name", ANSWERS)
def test_counts_find_the_known_answers_too(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    set_parameters(monkeypatch, "run", max_exact_variables=-1)
    round_, terms = ANSWERS[name]
    plan = solve_round(round_, gap=0.0, isolation="none")
    assert verification.verify(round_, plan).ok
    assert plan.certificate is not None
    if name != "a running job moves to a pair":  # no search of counts moves jobs for links
        assert values(plan) == terms
    most = [term for term in plan.certificate.terms if term.sense == "max"]
    assert all(term.bound >= terms[term.name] for term in most)


def test_three_gpus_include_the_pair() -> None:
    round_, _ = ANSWERS["gpu-links-five-free"]
    assert {2, 3} <= set(gpus_of(decide(round_, "highs"), "three"))


def test_the_smallest_task_lies_across_numa_nodes() -> None:
    round_, _ = ANSWERS["gpu-links-numa"]
    plan = decide(round_, "highs")
    names = [job.name for job in round_.jobs]
    across = {name for name in names if len({gpu // 4 for gpu in gpus_of(plan, name)}) > 1}
    assert across == {"two"}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("order", range(4))
def test_all_pairs_that_are_asked_for_are_joined_in_any_order(order: int, backend: str) -> None:
    round_ = load_round(LIBRARY / "gpu-pairs.yaml")
    jobs = list(round_.jobs)
    Random(order).shuffle(jobs)
    plan = decide(round_.model_copy(update={"jobs": tuple(jobs)}), backend)
    assert values(plan) == {"value": 8000, "gpu_links": 896_000, "opened": 1}


@pytest.mark.parametrize("first", ["single", "double"])
def test_pairs_are_kept_whole_for_the_next_round(first: str) -> None:
    round_ = load_round(LIBRARY / "gpu-pairs.yaml")
    before = tuple(job for job in round_.jobs if job.name.startswith(first))
    later = tuple(job for job in round_.jobs if not job.name.startswith(first))
    with Engine(round_.model_copy(update={"jobs": before}), isolation="none") as engine:
        engine.round()
        plan = engine.round(Changes(added=later))
    for number in range(2):
        low, high = gpus_of(plan, f"double-{number}")
        assert (low % 2, high) == (0, low + 1)


# The best sets of GPUs, against all sets and all orders.


def brute_ring(links: GpuLinks, gpus: tuple[int, ...]) -> int:
    def slowest(order: tuple[int, ...]) -> int:
        around = zip(order, (*order[1:], order[0]), strict=True)
        return min(links.mbps[a][b] for a, b in around)

    return max(slowest((gpus[0], *rest)) for rest in permutations(gpus[1:]))


def test_best_rings_of_the_cube_mesh_are_those_of_all_orders() -> None:
    links = LINK_MATRICES["hgx-v100-8"]
    tables, asked = LinkTables(links), GpuLinkRequest()
    for mask in range(1 << 8):
        free = tuple(bits(mask))
        for size in (2, 3, 4):
            best = max((brute_ring(links, some) for some in combinations(free, size)), default=None)
            found = tables.pack(mask, (LinkTask(size, asked, mask),))
            assert (None if found is None else found.asked_mbps) == best


def random_links(rng: Random, gpus: int) -> GpuLinks:
    widths = {pair: rng.choice((0, 1, 1, 3)) for pair in combinations(range(gpus), 2)}
    rows = tuple(
        tuple(widths.get((min(i, j), max(i, j)), 0) for j in range(gpus)) for i in range(gpus)
    )
    kind = tuple(tuple(5 * (width > 0) for width in row) for row in rows)
    return GpuLinks("random", kind, rows)


@pytest.mark.parametrize("seed", range(20))
def test_tables_are_those_of_all_orders(seed: int) -> None:
    links = random_links(Random(seed), 6)
    weight = np.array(links.mbps)
    ring, path, pairs = slowest_link(weight, "ring"), slowest_link(weight, "path"), pairs_in(weight)
    for mask in range(1 << 6):
        gpus = tuple(bits(mask))
        if len(gpus) < 2:
            assert ring[mask] == path[mask] == pairs[mask] == 0
            continue
        assert ring[mask] == brute_ring(links, gpus)
        assert pairs[mask] == sum(weight[a, b] for a, b in combinations(gpus, 2))
        ends = (min(weight[a, b] for a, b in pairwise(o)) for o in permutations(gpus))
        assert path[mask] == max(ends)


@pytest.mark.parametrize("seed", range(60))
def test_canonical_forms_are_equal_exactly_for_isomorphic_links(seed: int) -> None:
    rng = Random(seed)
    gpus = rng.randint(2, 8)
    one = random_links(rng, gpus)
    order = rng.sample(range(gpus), gpus)
    other = random_links(rng, gpus)
    if rng.random() < 0.6:  # the same in another order, sometimes with two links changed
        rows = [[one.mbps[i][j] for j in order] for i in order]
        if rng.random() < 0.5:
            a, b, c, d = (rng.randrange(gpus) for _ in range(4))
            rows[a][b], rows[c][d] = rows[c][d], rows[a][b]
            rows = [[rows[min(i, j)][max(i, j)] for j in range(gpus)] for i in range(gpus)]
        mbps = tuple(tuple(0 if i == j else x for j, x in enumerate(r)) for i, r in enumerate(rows))
        kind = tuple(tuple(5 * (width > 0) for width in row) for row in mbps)
        other = GpuLinks("other", kind, mbps)
    graphs = []
    for links in (one, other):
        graph: nx.Graph[int] = nx.Graph()
        for i, j in combinations(range(gpus), 2):
            graph.add_edge(i, j, mbps=links.mbps[i][j])
        graphs.append(graph)
    alike = nx.is_isomorphic(*graphs, edge_match=lambda a, b: a["mbps"] == b["mbps"])
    forms = [canonical_form(links, range(gpus)) for links in (one, other)]
    assert (forms[0] == forms[1]) == alike


@pytest.mark.parametrize("seed", range(40))
def test_packings_are_the_best_of_all(seed: int) -> None:
    rng = Random(seed)
    tables = LinkTables(random_links(rng, 6))
    free = rng.randrange(1 << 6)
    asks = [None, GpuLinkRequest(), GpuLinkRequest.model_validate({"required": "nvlink"})]
    tasks = tuple(LinkTask(rng.choice((1, 2, 2, 3)), None, free) for _ in range(rng.randint(1, 3)))
    tasks = tuple(t if t.gpus == 1 else t._replace(asked=rng.choice(asks)) for t in tasks)

    def best(left: int, rest: tuple[LinkTask, ...]) -> int | None:
        if not rest:
            return 0
        found = []
        for gpus in combinations(bits(left), rest[0].gpus):
            one = set_of(gpus)
            asked = rest[0].asked
            if asked is not None and asked.is_required and not tables.are_joined(asked, one):
                continue
            more = best(left & ~one, rest[1:])
            if more is not None:
                found.append(more + (0 if asked is None else tables.mbps(asked, one)))
        return max(found, default=None)

    packed = tables.pack(free, tasks)
    assert (None if packed is None else packed.asked_mbps) == best(free, tasks)


# A plan that breaks the rule of links, and no other.


def test_a_task_on_gpus_that_are_not_joined_is_refused() -> None:
    round_ = load_round(LIBRARY / "gpu-pairs.yaml")
    plan = solve_round(round_, isolation="none").model_dump(mode="json")
    at = {decision["job"]: decision["tasks"][0] for decision in plan["decisions"]}
    low, high = at["double-0"]["gpus"]
    single = at["single-0"]["gpus"][0]
    at["double-0"]["gpus"], at["single-0"]["gpus"] = [low, single], [high]
    plan["certificate"], plan["sections"] = None, []
    found = verification.verify(round_, Plan.model_validate(plan)).violations
    assert {violation.rule for violation in found} == {"gpu_links"}
    assert "joined by nvlink" in found[0].message


def test_other_policies_refuse_what_they_do_not_read() -> None:
    raw = load_round(LIBRARY / "muri.yaml").model_dump(mode="json", exclude_none=True)
    groups = raw["jobs"][0]["options"][0]["groups"]
    groups[0] |= {"gpu": "2", "gpu_links": {}}
    with pytest.raises(ValueError, match=r"gpu_links: not used by policies other than gang"):
        solve_round(Round.model_validate(raw))
