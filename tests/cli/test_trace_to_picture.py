"""A trace of Muri becomes a round that is solved, verified and drawn, verb by verb."""

from __future__ import annotations

from pathlib import Path

import pytest

TRACES = Path(__file__).parents[3] / "shared" / "data" / "traces" / "muri"
SMALL = """\
job_id,num_gpu,model_name,iteration_time,resource_time_0,resource_time_1,resource_time_2
0,1,dqn,490,446,8,0
1,1,gpt2,426,0.6,410,0
2,1,vgg16,201,5,10,180
3,1,gpt2,426,0.6,410,0
"""


@pytest.mark.parametrize(
    "choice",
    [
        pytest.param(["small.csv"], id="small"),
        pytest.param(
            [TRACES / "trace1.csv", TRACES / "n8g8.csv", "--at", "3855623"],
            id="published",
            marks=pytest.mark.skipif(not TRACES.is_dir(), reason="needs the traces of Muri"),
        ),
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
    verified = run("verify", round_, plan)
    assert verified.code == 0
    assert "weighted_throughput" in verified.out
    shown = run("show", round_, "--plan", plan)
    assert shown.code == 0
    assert "Groups that take turns" in shown.out
    assert "io+cpu" in shown.out
    assert run("show", round_, "--plan", plan, "-o", picture).code == 0
    assert "<svg" in picture.read_text()
