"""The reader of Synergy's traces."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from placewright.instances.errors import InvalidInputError
from placewright.instances.traces.papers import FAIR, POINTS, PROFILES, SPEEDS
from placewright.instances.traces.read import read_trace
from tests.instances.traces.files import written

GRID = [[(c + 1) / 3 if c < 2 else 1 + (c - 2) / 10 for _ in range(5)] for c in range(9)]
MODELS = {"models": {"res18_1": {"tput": GRID, "iter_time": 0.64}}}
TRACE = "7,res18,2.5,100,1\n8,res18,0.001,1000,2\n"


def folder_with(tmp_path: Path, models: object = MODELS) -> Path:
    """Write the profiles into a folder."""
    (tmp_path / PROFILES).write_text(json.dumps(models))
    return tmp_path


def test_iterations_take_the_time_of_the_proportional_share(tmp_path: Path) -> None:
    trace = read_trace(written(folder_with(tmp_path), TRACE, "static"))
    assert trace.submit_us.tolist() == [0, 2_499_000]
    assert trace.gpus.tolist() == [2, 1]
    assert trace.work_us.tolist() == [640_000_000, 64_000_000]
    assert trace.models == ("res18",)
    fair = FAIR[0] * 5 + FAIR[1]
    assert POINTS[fair] == (3, 64_000)
    assert trace.extra[SPEEDS][:, fair].tolist() == [1_000_000] * 2
    assert trace.extra[SPEEDS][0, -1] == 1_600_000


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (TRACE.replace("8,res18", "8,vgg"), "line 2, column model: 'vgg'"),
        (TRACE.replace(",1000,", ",0,"), "line 2, column iterations: '0'"),
        (TRACE.replace("0.001", "-1"), "line 2, column arrival: '-1'"),
        (TRACE.replace(",2\n", ",0\n"), "line 2, column gpus: '0'"),
        (TRACE.replace(",1000,", ",1000000000000,"), "line 2, column iterations"),
    ],
)
def test_errors_name_line_and_column(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(InvalidInputError, match=r"expected") as caught:
        read_trace(written(folder_with(tmp_path), text, "static"))
    assert told in str(caught.value)


def test_the_speed_at_the_proportional_share_is_one(tmp_path: Path) -> None:
    fast = [[2.0] * 5 for _ in range(9)]
    models = {"res18_1": {"tput": fast, "iter_time": 0.64}}
    with pytest.raises(InvalidInputError, match=r"of speed 1 at 3 cores and 62\.5 GB per GPU"):
        read_trace(written(folder_with(tmp_path, models), TRACE, "static"))


def test_profiles_are_beside_the_trace(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=PROFILES):
        read_trace(written(tmp_path, TRACE, "static"))
    models = {"res18_1": {"tput": GRID[:8], "iter_time": 0.64}}
    with pytest.raises(InvalidInputError, match=rf"{PROFILES}.*tput.*list of 9"):
        read_trace(written(folder_with(tmp_path, models), TRACE, "static"))
