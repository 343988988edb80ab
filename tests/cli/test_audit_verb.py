"""`audit` judges a placement, whoever made it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from placewright import load_round, solve_round, verify, write
from placewright.cli.app import main
from placewright.instances.documents.plan import Plan
from placewright.instances.io.files import load_plan, parse_round

QUICKSTART = Path(__file__).parents[2] / "instances" / "library" / "quickstart.yaml"


def start(job: str, host: str, *gpus: int) -> dict[str, Any]:
    return {
        "job": job,
        "decision": "start",
        "option": 0,
        "tasks": [{"host": host, "gpus": list(gpus)}],
    }


@pytest.fixture
def scattered(tmp_path: Path) -> tuple[str, str]:
    """Four hosts of 2 GPUs; a scheduler has put four jobs of one GPU on one host each.

    Two jobs of 2 GPUs wait. One move makes room for one of them, two moves for both.
    """
    round_ = parse_round(
        {
            "apiVersion": "placewright/v1alpha2",
            "kind": "Round",
            "name": "scattered",
            "cluster": {"hosts": [{"name": "h[0-3]", "gpus": 2, "gpu_model": "X"}]},
            "jobs": [
                *({"name": f"s{i}", "options": [{"groups": [{"gpu": 1}]}]} for i in range(4)),
                *({"name": f"w{i}", "options": [{"groups": [{"gpu": 2}]}]} for i in range(2)),
            ],
        }
    )
    plan = Plan.model_validate(
        {
            "apiVersion": "placewright/v1alpha2",
            "kind": "Plan",
            "decisions": [
                *(start(f"s{i}", f"h{i}", 0) for i in range(4)),
                *({"job": f"w{i}", "decision": "wait"} for i in range(2)),
            ],
        }
    )
    write(round_, str(tmp_path / "round.json"))
    write(plan, str(tmp_path / "plan.json"))
    return str(tmp_path / "round.json"), str(tmp_path / "plan.json")


def test_a_valid_placement_has_the_distance_of_each_term_and_no_certificate_of_its_own(
    tmp_path, capsys
):
    plan = solve_round(load_round(QUICKSTART), time_limit=0)
    foreign = plan.model_copy(update={"certificate": None, "round": None})
    write(foreign, str(tmp_path / "plan.json"))
    assert main(["audit", str(QUICKSTART), str(tmp_path / "plan.json")]) == 0
    printed = capsys.readouterr().out
    assert "valid, a plan for round quickstart" in printed
    assert "90,400" in printed.split("Distance from the proven bounds")[1]
    going_on = "no plan that goes on from it, each job with its option, is better by value, then"
    assert f"Moves buy nothing: {going_on} disruption" in printed


def test_a_placement_that_breaks_a_rule_is_not_judged_further(tmp_path, capsys):
    plan = solve_round(load_round(QUICKSTART), time_limit=0)
    broken = plan.model_copy(update={"certificate": None, "decisions": plan.decisions[1:]})
    write(broken, str(tmp_path / "plan.json"))
    assert main(["audit", str(QUICKSTART), str(tmp_path / "plan.json"), "--format", "json"]) == 7
    found = json.loads(capsys.readouterr().out)
    assert not found["valid"]
    assert found["violations"]
    assert found.keys().isdisjoint(("bounds", "moves", "fragmentation"))


def test_each_move_lets_a_job_start_and_every_point_is_written_as_a_plan(
    scattered, tmp_path, capsys
):
    folder = tmp_path / "points"
    options = ["--moves", "1", "--plans", str(folder), "--format", "json"]
    assert main(["audit", *scattered, *options]) == 0
    found = json.loads(capsys.readouterr().out)
    curve = found["moves"]
    assert [(p["moves"], p["starts"], p["gain"]) for p in curve["points"]] == [
        (0, 0, 0),
        (1, 1, 2000),
        (2, 2, 4000),
    ]
    assert (curve["term"], curve["distance"]) == ("value", 4000)
    assert [share["moves"] for share in curve["shares"]] == [1, 2, 2]
    assert [(len(s["moves"]), len(s["starts"])) for s in curve["order"]] == [(1, 1), (1, 1)]
    assert (found["within"]["allowed"], found["within"]["moves"]) == (1, 1)
    assert found["within"]["terms"]["value"] == found["within"]["bounds"][0]["bound"] == 2000
    led_to = load_round(str(folder / "round.json"))
    written = sorted(path.name for path in folder.glob("moves-*.json"))
    assert written == ["moves-0001.json", "moves-0002.json"]
    assert all(verify(led_to, load_plan(str(folder / name))).ok for name in written)
    assert found["fragmentation"]["placed"]["useless"] == 4000
    assert found["fragmentation"]["moved"]["free"] == 0


def test_the_text_has_the_curve_the_order_and_what_is_free(scattered, capsys):
    assert main(["audit", *scattered, "--moves", "1"]) == 0
    printed = capsys.readouterr().out
    assert "2 moves close 100 % of the distance" in printed
    assert "It moves 1 job, stops 0, starts 1, and has 2 GPUs more in use." in printed
    assert "Moves, those that pay first before others" in printed
    assert "Fragmentation" in printed


def test_the_picture_has_the_bound_and_the_best_plan_for_a_few_moves(scattered, tmp_path):
    pytest.importorskip("matplotlib")
    target = tmp_path / "audit.svg"
    assert main(["audit", *scattered, "--moves", "1", "-o", str(target)]) == 0
    drawn = target.read_text()
    assert "bound 4,000" in drawn
    assert "best found with 1 move or fewer" in drawn


def test_no_picture_is_written_where_moves_buy_nothing(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    plan = solve_round(load_round(QUICKSTART), time_limit=0)
    write(plan, str(tmp_path / "plan.json"))
    target = tmp_path / "audit.svg"
    assert main(["audit", str(QUICKSTART), str(tmp_path / "plan.json"), "-o", str(target)]) == 0
    assert not target.exists()
    assert "no picture was written" in capsys.readouterr().err


def test_verify_finds_the_best_plan_for_a_number_of_moves(scattered, capsys):
    assert main(["verify", *scattered, "--moves", "1"]) == 0
    assert "Best plan found with at most 1 move" in capsys.readouterr().out
    assert main(["verify", *scattered, "--moves", "0", "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["within"]["moves"], found["within"]["terms"]["value"]) == (0, 0)


def test_moves_are_asked_for_in_rounds_of_gangs_only(tmp_path, capsys):
    library = QUICKSTART.parent / "chronus.yaml"
    plan = solve_round(load_round(library), time_limit=0)
    write(plan, str(tmp_path / "plan.json"))
    assert main(["audit", str(library), str(tmp_path / "plan.json"), "--moves", "1"]) == 2
    assert "expected policy 'gang'" in capsys.readouterr().err
    assert main(["audit", str(library), str(tmp_path / "plan.json")]) == 0
    assert "Distance from the proven bounds" in capsys.readouterr().out


def test_plans_go_into_a_folder(scattered, tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert main(["audit", *scattered, "--plans", str(tmp_path / "file")]) == 2
    assert "is no folder" in capsys.readouterr().err


def test_a_dump_is_judged_by_what_runs_in_it(capsys):
    dump = Path(__file__).parents[1] / "data" / "slurm" / "v0.0.44"
    assert main(["audit", str(dump), "--time-limit", "20s"]) == 0
    printed = capsys.readouterr()
    assert "valid, a plan for round slurm" in printed.out
    assert "jobs: " in printed.err


@pytest.mark.nightly
@pytest.mark.parametrize(("seed", "gap"), [(1, "0 %"), (3, "12.1 %"), (5, "14.5 %")])
def test_the_distance_of_a_real_kueue_is_proven(seed, gap, capsys):
    captured = Path(__file__).parents[3] / "shared" / "data" / "live" / "kubernetes" / "captured"
    dump = captured / f"kueue-tas-seed{seed}"
    if not dump.is_dir():
        pytest.skip("the captured dumps are not here")
    assert main(["audit", str(dump), "--time-limit", "20s"]) == 0
    printed = capsys.readouterr().out
    value = next(line for line in printed.splitlines() if line.startswith(" value"))
    assert f"   {gap}   certified" in value
