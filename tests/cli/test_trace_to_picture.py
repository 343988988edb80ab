"""A trace becomes a round that is solved, verified and drawn, verb by verb."""

from __future__ import annotations

from pathlib import Path

import pytest

DATA = Path(__file__).parents[1] / "data"
MURI = DATA / "muri" / "trace3.csv"
CHRONUS = DATA / "chronus" / "MIX2.csv"
SMALL = """\
job_id,num_gpu,model_name,iteration_time,resource_time_0,resource_time_1,resource_time_2
0,1,dqn,490,446,8,0
1,1,gpt2,426,0.6,410,0
2,1,vgg16,201,5,10,180
3,1,gpt2,426,0.6,410,0
"""


@pytest.mark.nightly(after=1)
@pytest.mark.parametrize(
    "choice",
    [
        pytest.param(["small.csv"], id="small"),
        pytest.param([MURI, "--jobs", "40", "--gpus", "32"], id="published"),
    ],
)
def test_a_trace_is_converted_solved_verified_and_drawn(
    run, choice, tmp_path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    Path("small.csv").write_text(SMALL)
    round_, plan, picture = (tmp_path / name for name in ("round.json", "plan.json", "plan.svg"))
    assert run("convert", "muri", *choice, "-o", round_).code == 0
    assert run("solve", round_, "-o", plan, "--gap", "0.001").code == 0
    verified = run("verify", round_, plan, "-v")
    assert verified.code == 0
    assert "weighted_throughput" in verified.out
    shown = run("show", round_, "--plan", plan)
    assert shown.code == 0
    assert "Groups that take turns" in shown.out
    assert "io+cpu" in shown.out
    assert run("show", round_, "--plan", plan, "-o", picture).code == 0
    assert "<svg" in picture.read_text()


DUE = """\
job_id,user,num_gpu,submit_time,iterations,model_name,duration,interval,expect_time_list,expect_value_list,best_effort,job_type
1,a,8,0,10,bert,60,1,70,10,0,strict
2,a,8,0,10,vgg16,50,1,60-120,10-5,0,soft
3,a,8,0,10,vgg16,200,1,100,10,0,strict
4,a,1,0,10,vgg16,200,1,100000,0,1,best
"""


@pytest.mark.nightly(after=1)
@pytest.mark.parametrize(
    ("trace", "choice"),
    [
        pytest.param("due.csv", ["--gpus", "8"], id="small"),
        pytest.param(CHRONUS, ["--gpus", "8", "--at", "1000"], id="published"),
    ],
)
def test_a_trace_of_deadlines_is_promised_verified_and_drawn(
    run, trace, choice, tmp_path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    Path("due.csv").write_text(DUE)
    round_, plan = tmp_path / "round.json", tmp_path / "plan.json"
    assert run("convert", "chronus", trace, *choice, "-o", round_).code == 0
    assert "due, 0 promised" in run("validate", round_).out
    solved = run("solve", round_, "-o", plan)
    assert solved.code == 0
    assert "Promised anew, earliest first" in solved.out
    assert " refused" in run("validate", plan).out
    verified = run("verify", round_, plan, "-v")
    assert verified.code == 0
    assert "admitted" in verified.out
    shown = run("show", round_, "--plan", plan)
    assert shown.code == 0
    assert " leases of 20m from now" in shown.out
    for picture in ("plan.svg", "plan.png"):
        assert run("show", round_, "--plan", plan, "-o", tmp_path / picture).code == 0
    assert "<svg" in (tmp_path / "plan.svg").read_text()
