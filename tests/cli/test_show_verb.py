"""`placewright show`: trees, tables, maps and pictures."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from placewright.cli.views.gang.facts import occupancy_of
from placewright.instances.documents.round import Round
from placewright.instances.generators.gang import generate_cluster, generate_round
from placewright.instances.io.files import load_plan, load_round, write

QUICKSTART = Path(__file__).parents[2] / "instances" / "library" / "quickstart.yaml"
PNG = b"\x89PNG\r\n"


def test_a_cluster_is_a_tree(run, tmp_path):
    path = tmp_path / "cluster.json"
    write(generate_cluster(64), path)
    result = run("show", path)
    assert result.code == 0
    assert not result.err
    assert result.out.startswith("Cluster generated-64: 64 GPUs (64 A100) on 8 hosts")
    assert "rack r0  4 hosts, 32 A100, 32 free" in result.out
    assert "host h3  8 A100, 8 free" in result.out


def test_a_large_cluster_is_cut_at_a_level_and_says_so(run, tmp_path):
    path = tmp_path / "cluster.json"
    write(generate_cluster(100_000), path)
    result = run("show", path)
    assert result.code == 0
    assert "not drawn: 98 blocks, 1,563 racks, 12,500 hosts" in result.out
    assert result.out.count("\n") < 20


def test_a_round_is_a_tree_and_its_jobs(run):
    result = run("show", QUICKSTART)
    assert result.code == 0
    assert "unhealthy" in result.out
    assert "Jobs by size" in result.out
    for job in load_round(QUICKSTART).jobs:
        assert job.name in result.out


def test_jobs_are_counted_by_size(run, tmp_path):
    sizes = (0.5, 0.5, 1, 8)
    jobs = [{"name": f"j{i}", "options": [{"groups": [{"gpu": g}]}]} for i, g in enumerate(sizes)]
    hosts = [{"name": "h", "gpus": 8, "gpu_model": "A"}]
    write(Round.model_validate({"cluster": {"hosts": hosts}, "jobs": jobs}), tmp_path / "r.json")
    lines = run("show", tmp_path / "r.json").out.splitlines()
    first = next(i for i, line in enumerate(lines) if "Jobs by size" in line) + 3
    rows = [line.split() for line in lines[first : first + 3]]
    assert rows == [["below", "1", "2", "0", "1"], ["1", "1", "0", "1"], ["8", "1", "0", "8"]]


def test_more_jobs_than_rows_are_counted(run, round_file):
    assert (
        f"... and {len(load_round(round_file).jobs) - 20} more jobs" in run("show", round_file).out
    )


def test_a_plan_is_a_map_of_cells(run, round_file, plan_file):
    for args in ((round_file, "--plan", plan_file), (plan_file, "--round", round_file)):
        result = run("show", *args)
        assert result.code == 0
        assert not result.err
        racks, _, legend = result.out.partition("started:")
        rows = [line.split() for line in racks.splitlines() if line.startswith("h")]
        cells = [cell for row in rows for cell in row if len(cell) > 2]
        assert sum(map(len, cells)) == 64
        occupancy = occupancy_of(load_round(round_file), load_plan(plan_file))
        for job in occupancy.jobs:
            assert "".join(cells).count(job.mark) == job.milli_gpu / 1000
            assert f"{job.mark} {job.name}: " in legend
        assert "\x1b" not in result.out


def test_shares_and_unhealthy_hosts_have_their_own_cells(run, tmp_path, first_fit):
    plan = tmp_path / "plan.json"
    write(first_fit(load_round(QUICKSTART)), plan)
    result = run("show", QUICKSTART, "--plan", plan)
    assert "×" * 8 in result.out
    assert "[DDD·····]" in result.out


def test_a_plan_with_moves_is_drawn_before_and_after(run, moving):
    round_, plan = moving
    result = run("show", round_, "--plan", plan)
    assert result.code == 0
    assert "1 started, 3 migrated, 1 preempted, 1 kept, 0 waiting" in result.out
    for host in ("a0 aaaa → AAAA", "a1 BBCC → B·DD", "a2 ··DD → B·CC", "a3 b··· → b···"):
        assert host in result.out
    for line in (
        "migrated: 3 jobs, 6 GPUs\n  B train: 2 GPUs on 2 hosts",
        "preempted: 1 job, 4 GPUs\n  a low: 4 GPUs",
        "kept: 1 job, 1 GPU\n  b serve: 1 GPU",
    ):
        assert line in result.out


def test_a_round_alone_has_a_map_of_its_running_jobs(run, moving):
    result = run("show", moving[0])
    for row in ("a0 aaaa", "a1 bbcc", "a2 ··dd", "a3 e···"):
        assert row in result.out


def test_a_pinned_job_says_so(run, moving):
    assert "a3:0, pinned" in run("show", moving[0]).out


def test_a_cluster_too_large_for_a_map_has_its_utilisation_by_rack(run, tmp_path, first_fit):
    round_, plan = tmp_path / "round.json", tmp_path / "plan.json"
    write(generate_round(2048, 3), round_)
    write(first_fit(load_round(round_)), plan)
    result = run("show", round_, "--plan", plan)
    assert result.code == 0
    assert "GPUs by rack" in result.out
    assert "■ started: 3 jobs, 3 GPUs" in result.out
    alone = run("show", round_).out
    assert "GPUs by rack" in alone
    assert "□ running: " in alone


def test_hosts_without_levels_are_drawn(run, tmp_path, first_fit):
    hosts = [{"name": "n[0-9]", "gpus": 2, "gpu_model": "T4"}, {"name": "c0", "gpus": 0}]
    job = {"name": "j", "options": [{"groups": [{"gpu": 0.3}]}]}
    round_ = Round.model_validate({"cluster": {"hosts": hosts}, "jobs": [job]})
    paths = tmp_path / "round.json", tmp_path / "plan.json", tmp_path / "map.png"
    write(round_, paths[0])
    write(first_fit(round_), paths[1])
    result = run("show", paths[0], "--plan", paths[1])
    assert result.code == 0
    assert "n0 [A···]·" in result.out
    assert run("show", paths[0], "--plan", paths[1], "-o", paths[2]).code == 0


@pytest.mark.nightly(after=1)
@pytest.mark.parametrize("suffix", [".png", ".svg", ".PNG"])
def test_everything_can_be_a_picture(run, tmp_path, round_file, plan_file, moving, suffix):
    cluster = tmp_path / "cluster.json"
    write(generate_cluster(64), cluster)
    for number, args in enumerate(
        (
            (cluster,),
            (round_file,),
            (QUICKSTART,),
            (round_file, "--plan", plan_file),
            (moving[0], "--plan", moving[1]),
        )
    ):
        picture = tmp_path / f"map{number}{suffix}"
        result = run("show", *args, "-o", picture)
        assert result == (0, "", f"wrote {picture}\n")
        content = picture.read_bytes()
        assert content.startswith(PNG) if suffix != ".svg" else b"<svg" in content


def test_the_same_plan_gives_the_same_picture(run, tmp_path, round_file, plan_file):
    pictures = [tmp_path / "a.svg", tmp_path / "b.svg"]
    for picture in pictures:
        assert run("show", round_file, "--plan", plan_file, "-o", picture).code == 0
    assert pictures[0].read_bytes() == pictures[1].read_bytes()


def test_the_text_of_an_svg_is_text(run, tmp_path, moving):
    picture = tmp_path / "map.svg"
    assert run("show", moving[0], "--plan", moving[1], "-o", picture).code == 0
    content = picture.read_text()
    assert "<title>Plan for round round</title>" in content
    for text in ("before", "after", "a0", "preempted: 1 job, 4 GPUs", "gang: 4 GPUs"):
        assert re.search(rf"<text [^>]*>{text}</text>", content), text


def test_a_picture_without_matplotlib_says_what_to_install(run, monkeypatch, tmp_path, round_file):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    result = run("show", round_file, "-o", tmp_path / "map.png")
    assert result.code == 2
    assert "placewright[plot]" in result.said


@pytest.mark.parametrize("name", ["map.txt", "map", ".png/x.jpeg"])
def test_a_picture_of_another_format_is_refused(run, tmp_path, round_file, name):
    result = run("show", round_file, "-o", tmp_path / name)
    assert result.code == 2
    assert not (tmp_path / name).exists()


def test_a_plan_alone_says_that_it_needs_its_round(run, round_file, plan_file, tmp_path):
    cluster = tmp_path / "cluster.json"
    write(generate_cluster(64), cluster)
    for args in (
        (plan_file,),
        (round_file, "--round", round_file),
        (plan_file, "--plan", plan_file),
        (cluster, "--plan", plan_file),
        (round_file, "--plan", plan_file, "--round", round_file),
    ):
        result = run("show", *args)
        assert result.code == 2
        assert not result.out
        assert "expected" in result.said


def test_an_invalid_plan_is_not_drawn(run, round_file, plan_file):
    raw = json.loads(plan_file.read_text())
    raw["decisions"][-1] = raw["decisions"][0]
    plan_file.write_text(json.dumps(raw))
    result = run("show", round_file, "--plan", plan_file)
    assert result.code == 7
    assert not result.out
    assert "breaks" in result.said


def test_a_plan_for_another_round_exits_3(run, plan_file):
    result = run("show", plan_file, "--round", QUICKSTART)
    assert result.code == 3
    assert not result.out


def test_a_cluster_without_gpus_has_no_picture(run, tmp_path):
    path = tmp_path / "cluster.yaml"
    path.write_text(
        "apiVersion: placewright/v1alpha2\nkind: Cluster\nhosts: [{name: h, gpus: 0}]\n"
    )
    assert run("show", path).code == 0
    result = run("show", path, "-o", tmp_path / "map.png")
    assert result.code == 2
    assert "cluster.yaml has no GPUs to draw" in result.said
