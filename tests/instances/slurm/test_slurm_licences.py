"""Licences of Slurm, which become pools that jobs use."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from slurm_dumps import convert, job, node, running, write_dump

from placewright import solve_round
from placewright.instances.converters import read_slurm
from placewright.instances.converters.slurm.caps import CHOICE, NOT_ASKED, UNKNOWN
from placewright.instances.documents.plan import Reason
from placewright.instances.errors import InvalidInputError

DATA = Path(__file__).parents[2] / "data"

TEXT = """\
LicenseName=ansys
    Total=3 Used=3 Free=0 Reserved=0 Remote=no
LicenseName=lic@flex
    Total=4 Used=0 Free=4 Reserved=0 Remote=no
LicenseName=matlab
    Total=10 Used=8 Free=2 Reserved=0 Remote=no
"""
"""As Slurm 22.05 prints them."""

GPU = {"tres_per_node": "gpu:2"}
HELD = (("h0", 1, 10, "gpu:h100:2(IDX:0-1)"),)


def pools_of(made):
    assert all(pool.per == "job" and pool.level is None for pool in made.round.cluster.pools)
    return {pool.resource: pool.capacity for pool in made.round.cluster.pools}


def uses(made):
    return {one.name: one.options[0].uses for one in made.round.jobs if one.options[0].uses}


def test_a_pool_has_what_is_free_and_what_jobs_of_the_round_hold(tmp_path):
    jobs = [
        running(1, *HELD, licenses="ansys:2"),
        running(2, *HELD, licenses="matlab:4,ansys"),
        job(3, licenses="ansys:2", state_reason="Licenses", **GPU),
        job(4, licenses="lic@flex:3", **GPU),
        job(5, **GPU),
    ]
    made = convert(tmp_path, jobs, [node("h0")], licences=TEXT)
    # Others hold four of matlab, which are in no round.
    assert pools_of(made) == {"license/ansys": 3, "license/lic@flex": 4, "license/matlab": 6}
    assert uses(made) == {
        "1": {"license/ansys": 2},
        "2": {"license/matlab": 4, "license/ansys": 1},
        "3": {"license/ansys": 2},
        "4": {"license/lic@flex": 3},
    }
    assert not made.book.unsaid
    plan = solve_round(made.round, time_limit=3.0, isolation="none")
    waits = {one.job: one.reason for one in plan.decisions if one.reason is not None}
    assert waits == {"3": Reason.CAPACITY}


def test_a_captured_dump_has_its_licences_in_the_round():
    made = read_slurm([DATA / "slurm" / "licences"])
    assert pools_of(made) == {"license/ansys": 3, "license/matlab": 10}
    held = sum(one.options[0].uses.get("license/matlab", 0) for one in made.round.jobs)
    assert (held, made.book.left_out) == (8, {})
    (waits,) = (one for one in made.round.jobs if one.running is None)
    assert waits.options[0].uses == {"license/ansys": 2}


def test_json_says_the_same(tmp_path):
    (tmp_path / "as-text").mkdir()
    jobs = [running(1, *HELD, licenses="ansys:2"), job(2, licenses="matlab", **GPU)]
    text = convert(tmp_path / "as-text", jobs, [node("h0")], licences=TEXT)
    rows = [
        {"LicenseName": "ansys", "Total": 3, "Used": 3, "Free": 0, "Remote": False, "Reserved": 0},
        {"LicenseName": "matlab", "Total": 10, "Used": 6, "Reserved": 2},
    ]
    folder = write_dump(tmp_path, jobs, [node("h0")])
    (folder / "licences.json").write_text(json.dumps({"licenses": rows, "meta": {}}))
    assert pools_of(read_slurm([folder])) == pools_of(text)


def test_each_task_of_an_array_and_each_option_uses_them(tmp_path):
    jobs = [
        job(7, licenses="matlab", array_job_id=7, array_task_string="1-2", **GPU),
        job(8, licenses="matlab:2", node_count=1, max_nodes=2, **GPU),
    ]
    made = convert(tmp_path, jobs, licences=TEXT)
    found = [option.uses for one in made.round.jobs for option in one.options]
    assert found == [{"license/matlab": 1}] * 2 + [{"license/matlab": 2}] * 2


def test_components_of_a_heterogeneous_job_use_them_together(tmp_path):
    parts = [
        job(1, het_job_id=1, het_job_offset=0, licenses="matlab:2", **GPU),
        job(2, het_job_id=1, het_job_offset=1, licenses="matlab:3,ansys", **GPU),
    ]
    made = convert(tmp_path, parts, licences=TEXT)
    assert uses(made) == {"1": {"license/matlab": 5, "license/ansys": 1}}


@pytest.mark.parametrize(
    ("asked", "texts", "said", "used"),
    [
        ("matlab:2", {}, NOT_ASKED, {}),
        ("matlab|ansys", {"licences": TEXT}, CHOICE, {}),
        ("matlab:9999999999999", {"licences": TEXT}, CHOICE, {}),
        ("matlab,other:2", {"licences": TEXT}, UNKNOWN, {"license/matlab": 1}),
        ("matlab", {"licences": TEXT + "LicenseName=matlab\n Total=3\n"}, UNKNOWN, {}),
        ("a b", {"licences": "LicenseName=a b\n Total=3\n"}, UNKNOWN, {}),
    ],
)
def test_what_a_round_cannot_say_is_told(tmp_path, asked, texts, said, used):
    made = convert(tmp_path, [job(1, licenses=asked, **GPU)], **texts)
    assert made.book.unsaid == {said: ["1"]}
    assert made.round.jobs[0].options[0].uses == used


@pytest.mark.parametrize("total", ["-1", "many", "9999999999999"])
def test_a_number_that_slurm_does_not_write_is_one_line(tmp_path, total):
    text = f"LicenseName=matlab\n    Total={total} Used=0\n"
    with pytest.raises(InvalidInputError) as caught:
        convert(tmp_path, [job(1, licenses="matlab", **GPU)], licences=text)
    assert f"{tmp_path / 'licences'}.txt: licenses[0].Total: " in str(caught.value)
    assert "expected a whole number from 0" in str(caught.value)
