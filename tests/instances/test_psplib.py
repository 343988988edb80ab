"""Projects of PSPLIB, and graphs of jobs, become rounds of policy `stages`."""

from __future__ import annotations

from pathlib import Path

import networkx as nx
import pytest

from placewright import InvalidInputError, Job, Round, solve_round, verify
from placewright.cli.app import main
from placewright.instances.converters import read_psplib
from placewright.instances.io.files import load_round

PROJECT = """\
************************************************************************
jobs (incl. supersource/sink ):  6
RESOURCES
  - renewable                 :  2   R
  - nonrenewable              :  0   N
************************************************************************
PRECEDENCE RELATIONS:
jobnr.    #modes  #successors   successors
   1        1          3           2   3   4
   2        1          1           5
   3        1          1           6
   4        1          1           5
   5        1          1           6
   6        1          0
************************************************************************
REQUESTS/DURATIONS:
jobnr. mode duration  R 1  R 2
------------------------------------------------------------------------
  1      1     0       0    0
  2      1     3       2    0
  3      1     4       2    1
  4      1     2       1    0
  5      1     0       0    0
  6      1     2       0    1
************************************************************************
RESOURCEAVAILABILITIES:
  R 1  R 2
    3    1
"""
"""Activities 2 and 3 exclude each other: 3 + 4, then 6, which waits for all: 9."""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    path = tmp_path / "six.sm"
    path.write_text(PROJECT)
    return path


def test_a_project_is_solved_to_its_optimum(project: Path, tmp_path: Path) -> None:
    round_ = read_psplib(project)
    assert {job.name: job.stage.after for job in round_.jobs if job.stage} == {
        "a2": (),
        "a3": (),
        "a4": (),
        "a6": ("a2", "a3", "a4"),
    }
    plan = solve_round(round_, isolation="none")
    assert verify(round_, plan).terms == {"makespan": 9}
    assert plan.certificate is not None
    assert plan.certificate.status == "optimal"
    written = tmp_path / "round.yaml"
    assert main(["convert", "psplib", str(project), "-o", str(written)]) == 0
    assert load_round(written) == round_


def test_odd_spacing_changes_nothing(project: Path) -> None:
    round_ = read_psplib(project)
    odd = PROJECT.replace("  ", "\t").replace("\n", " \r\n\r\n").replace("R 1", "R1").lower()
    project.write_text(odd, newline="")
    assert read_psplib(project) == round_


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("PRECEDENCE", "", ": expected a project of PSPLIB"),
        ("  R 1  R 2\n    3 ", "  N 1\n  3 ", r":\d+: resources: \['N', '1'\]: expected renewable"),
        ("  2      1     3 ", "", r":20: requests: '2 0': expected activity, mode 2, duration"),
        ("  2      1     3 ", "  2      1    -3 ", ":20: requests: '-3': expected whole numbers"),
        ("  2      1     3 ", "  2      1    ٣ ", ":20: requests: '٣': expected whole numbers"),
        ("  3      1     4 ", "  3      2     4 ", ":21: requests: .*: expected activity, mode 1"),
        ("  3      1     4 ", "  2      1     4 ", ":21: requests: 2: expected each activity"),
        ("  6      1     2       0    1\n", "", "requests: 0: modes of activity 6; expected 1"),
        ("  2   3   4", "  2   3", ":9: successors: '1 1 3 2 3': expected its number"),
        ("     6\n   4", "     7\n   4", ":11: successors: 7: unknown activity"),
        ("   6        1          0", "   6  1  1  3", r"stage\.after: each waits for the next"),
        (
            "PRECEDENCE",
            "PROJECT INFORMATION:\npronr. #jobs rel.date\n 1 6 4\nPRECEDENCE",
            ":9: projects: 4: release date; expected 0",
        ),
    ],
)
def test_what_is_no_project_is_one_error(project: Path, old: str, new: str, words: str) -> None:
    assert PROJECT.count(old) == 1
    project.write_text(PROJECT.replace(old, new))
    with pytest.raises(InvalidInputError, match=rf"six\.sm.*{words}"):
        read_psplib(project)


def test_a_graph_says_which_jobs_wait_for_which() -> None:
    graph = nx.DiGraph([("train", "test"), ("train", "score")])
    graph.add_node("train", task_s=7)
    graph.add_node("test", task_s=2)
    cluster = {"hosts": [{"name": "h", "gpus": 1, "gpu_model": "A100"}]}
    jobs = [Job("train", gpus=1), Job("test", gpus=1), Job("score", gpus=1, stage={"task_s": 3})]
    round_ = Round.of(cluster, jobs, after=graph, policy={"formulation": "stages"})
    assert solve_round(round_, isolation="none").certificate.terms[0].value == 12  # type: ignore[union-attr]
    graph.add_edge("nobody", "test")
    with pytest.raises(InvalidInputError, match="after: 'nobody': unknown job"):
        Round.of(cluster, jobs, after=graph, policy={"formulation": "stages"})
