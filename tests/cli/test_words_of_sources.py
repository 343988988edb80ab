"""Rounds of Slurm and Kubernetes are explained in their words, with what matters for the job."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from placewright import InvalidInputError, Round, explain_job, solve_round
from placewright.cli.app import main
from placewright.cli.views.explanation import kinds_table, lines
from placewright.explain.document import explanation_document
from placewright.explain.kinds import explain_all
from placewright.instances.converters import read_slurm
from placewright.instances.derived.doubts import why_waits
from placewright.instances.derived.source_words import words_of
from placewright.instances.io.files import load_plan, write
from placewright.report.page import render_report
from tests.instances.kubernetes import dumps
from tests.support import slurm_dumps
from tests.support.slurm_dumps import job, node, running


def explained(round_: Round, name: str, corrections: int = 6) -> str:
    found = explain_job(round_, None, name, corrections=corrections, isolation="none")
    asked = next(one for one in round_.jobs if one.name == name)
    return "\n".join(lines(asked, found))


def slurm(folder: Path, *jobs: Any, nodes: Any = None, **texts: str) -> Round:
    return slurm_dumps.convert(folder, list(jobs), nodes, **texts).round


def test_a_held_job_of_slurm_is_released(tmp_path):
    round_ = slurm(tmp_path, job(3, tres_per_node="gpu:1", hold=True, state_reason="JobHeldUser"))
    said = explained(round_, "3")
    assert "Try first: release it: scontrol release 3 (user)" in said
    assert "resume" not in said


NODES = [
    *(node(f"h{i}", features="fast", active_features="fast", partitions=["p"]) for i in range(2)),
    node("l0", "gpu:l40s:4", partitions=["q"]),
]


def test_partitions_features_and_nodes_are_those_of_sbatch(tmp_path):
    asks = {"tres_per_node": "gpu:8", "features": "fast", "required_nodes": "h1"}
    busy = running(1, ("h1", 4, 0, "gpu:h100:8"), account="lab")
    said = explained(slurm(tmp_path, busy, job(2, **asks), nodes=NODES), "2")
    assert "asks   on h1 only" in said
    assert "ask for no nodes by name (-w)" in said
    assert "account lab" in said
    for word in ("host", "tenant", "l0", "l40s"):
        assert word not in said
    free = slurm(tmp_path, busy, job(2, tres_per_node="gpu:8", partition="q"), nodes=NODES)
    said = explained(free, "2")
    assert "in partition q only (-p)" in said
    assert "another partition than q (-p)" in said


def test_nodes_that_are_named_are_those_that_the_job_may_have(tmp_path):
    nodes = [node("h0", state="drained"), node("h1"), node("l0", "gpu:l40s:4", state="drained")]
    asks = {"tres_per_node": "gpu:h100:8"}
    round_ = slurm(tmp_path, running(1, ("h1", 4, 0, "gpu:h100:8")), job(2, **asks), nodes=nodes)
    (kind,) = explain_all(round_, None, isolation="none")
    (away,) = (fact.text for fact in kind.explanation.conflict if fact.kind == "hosts")
    assert away == "host h0 is unhealthy"
    plan = solve_round(round_, isolation="none")
    waits = next(one for one in plan.decisions if one.job == "2")
    assert waits.detail is not None
    assert waits.detail.host != "l0"
    assert "l40s" not in explained(round_, "2").partition("Where")[0]


def test_of_a_job_without_a_model_the_node_that_is_nearest_could_hold_it(tmp_path):
    nodes = [node("h0"), node("l0", "gpu:l40s:4")]
    round_ = slurm(
        tmp_path,
        running(1, ("h0", 4, 0, "gpu:h100:8")),
        job(2, tres_per_node="gpu:8"),
        nodes=nodes,
    )
    plan = solve_round(round_, isolation="none")
    waits = next(one for one in plan.decisions if one.job == "2")
    assert why_waits(round_, round_.jobs[1], waits) == (
        "no node takes a task beside running jobs: h0 has 0 GPUs free, a task asks 8 GPUs"
    )


def test_shortages_of_cores_name_cores():
    round_ = Round.model_validate(
        {
            "cluster": {"hosts": [{"name": "h0", "gpus": 8, "gpu_model": "A", "cpu": 16}]},
            "jobs": [
                {
                    "name": "eats",
                    "options": [{"groups": [{"gpu": 0, "cpu": 16}]}],
                    "running": {"tasks": [{"index": 0, "host": "h0"}], "pinned": True},
                },
                {"name": "waits", "options": [{"groups": [{"gpu": 1, "cpu": 8}]}]},
            ],
        }
    )
    said = explained(round_, "waits")
    assert "job eats runs (16 cores, pinned)" in said
    assert "in the way: 1 job pinned (16 cores)" in said
    assert "0 GPUs)" not in said


def test_times_of_slurm_are_dates(tmp_path):
    later = job(2, tres_per_node="gpu:1", state_reason="BeginTime", eligible_time=1_795_910_026)
    now = job(1, tres_per_node="gpu:1", submit_time=1_795_900_000)
    round_ = slurm(tmp_path, now, later)
    plan = solve_round(round_, isolation="none")
    waits = next(one for one in plan.decisions if one.job == "2")
    asked = next(one for one in round_.jobs if one.name == "2")
    assert why_waits(round_, asked, waits) == (
        "may not start before its time, at 2026-11-28 23:53:46 UTC"
    )
    assert "the job starts no earlier than at 2026-11-28 23:53:46 UTC" in explained(round_, "2")


def test_where_speaks_of_each_flavor_and_contradicts_nothing():
    hosts = [{"name": f"{m}0", "gpus": 8, "gpu_model": m.upper()} for m in "ah"]
    options = [{"name": m, "groups": [{"gpu": 8, "gpu_models": [m.upper()]}]} for m in "ah"]
    tasks = {"tasks": [{"index": 0, "host": "h0", "gpus": list(range(8))}], "pinned": True}
    round_ = Round.model_validate(
        {
            "cluster": {"hosts": hosts},
            "reservations": [{"host": "a0"}],
            "jobs": [
                {"name": "low", "options": options[1:], "running": tasks, "tenant": "cq"},
                {"name": "high", "options": options, "tenant": "cq"},
            ],
            "tenants": [{"name": "cq"}],
            "annotations": {"source": "kubernetes", "kubernetes/tenants": "kueue"},
        }
    )
    said = explained(round_, "high")
    assert "node a0 is closed (cordoned" in said
    assert "job low runs (8 GPUs, pinned, ClusterQueue cq)" in said
    assert "Where, option h: whether its task fits, by kind of node" in said
    assert "1 node of 8 x H  0 now, 1 if empty; in the way: 1 job pinned (8 GPUs)" in said
    assert "another GPU model" not in said


def test_names_are_no_words():
    round_ = Round.model_validate(
        {"cluster": {"hosts": [{"name": "h"}]}, "annotations": {"source": "slurm"}}
    )
    words = words_of(round_)
    for name in ("host-1", "ns/host", "tenant.b", "my_host", "hosts2"):
        assert words.say(f"job {name} runs on a host") == f"job {name} runs on a node"


def test_words_of_kubernetes(tmp_path):
    pods = [dumps.pod("a", 8, host="n0"), dumps.pod("b", 8, nodeSelector={"rack": "r"})]
    round_ = dumps.convert(
        tmp_path, dumps.node("n0", labels={"rack": "r"}), dumps.node("n1"), *pods
    ).round
    said = explained(round_, "ns/b")
    assert "on nodes with label rack=r only" in said
    assert "drop its node selector rack=r" in said
    table = kinds_table(explain_all(round_, None, isolation="none"), beside=False)
    assert "on nodes with label rack=r only" in "\n".join(map(str, table.columns[3].cells))


def test_files_that_say_that_there_is_nothing_are_read(tmp_path):
    texts = {"reservations": "No reservations in the system\n"}
    made = slurm_dumps.convert(tmp_path, [job(1, tres_per_node="gpu:1")], **texts)
    assert made.ignored == ()


def test_an_empty_file_of_nodes_names_the_command_of_22_05(tmp_path):
    folder = slurm_dumps.write_dump(tmp_path, [job(1)], [node("h0")])
    (folder / "nodes.json").write_text("")
    with pytest.raises(InvalidInputError, match=r"Slurm 22\.05: `sinfo --json`"):
        read_slurm([folder])


def test_a_dump_of_a_release_that_is_too_old_names_it(tmp_path):
    folder = slurm_dumps.write_dump(tmp_path, [job(1)], [node("h0")])
    meta = {"Slurm": {"version": {"major": 21, "micro": 5, "minor": 8}, "release": "21.08.5"}}
    (folder / "jobs.json").write_text(json.dumps({"meta": meta, "jobs": [{"no": 1}]}))
    with pytest.raises(
        InvalidInputError, match=r"is of Slurm 21\.08\.5; expected Slurm from 22\.05"
    ):
        read_slurm([folder])


def test_a_cluster_without_gres_says_so(tmp_path):
    made = slurm_dumps.convert(tmp_path, [job(1, tres_per_node="gpu:1")], [node("h0", "")])
    assert any("gres.conf" in what for what in made.book.unsaid)


def test_tables_pages_differences_and_json_have_the_words_of_slurm(tmp_path, capsys):
    busy = running(1, ("h0", 4, 0, "gpu:h100:8"), account="lab")
    waits = job(2, account="lab", tres_per_node="gpu:8", features="fast", qos="low")
    nodes = [node("h0", active_features="fast"), node("h1")]
    round_ = slurm(tmp_path, busy, waits, nodes=nodes)
    files = [str(tmp_path / name) for name in ("round.json", "plan.json", "page.html")]
    write(round_, files[0])
    assert main(["solve", *files[:1], "-o", files[1]]) == 0
    tables = capsys.readouterr().out
    assert "Accounts, in GPUs" in tables
    assert "tenant" not in tables.lower()
    plan = load_plan(files[1])
    assert "Accounts, in GPUs" in (page := render_report(round_, plan))
    assert '"words":{"tenant":"account","Tenant":"Account"}' in page
    found = explain_job(round_, plan, "2", corrections=6, isolation="none")
    listed = explanation_document(found, "")["corrections"]["now"]
    assert "drop feature fast (-C)" in {one["text"] for one in listed}
