"""The verbs `whatif` and `diff`: options and files, what is printed, and what is refused."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from placewright.cli.verbs.whatif import read_edits
from placewright.instances.documents.edits import JobEdit
from placewright.instances.documents.round import Round
from placewright.instances.edits.apply import apply_edits
from placewright.instances.io.files import load_plan, load_round, parse_edits, parse_round, write
from placewright.instances.verify import verify

HEAD = {"apiVersion": "placewright/v1alpha2"}
JOB = {"name": "new", "options": [{"groups": [{"gpu": 2}]}]}
WHOLE = [0, 1, 2, 3]


def document(formulation: str = "gang") -> dict[str, Any]:
    jobs: list[dict[str, Any]] = [
        {
            "name": "runs",
            "tenant": "t",
            "options": [{"groups": [{"gpu": 4}]}],
            "running": {"tasks": [{"host": "a0", "gpus": WHOLE}]},
        },
        {"name": "waits.long", "tenant": "t", "options": [{"groups": [{"count": 2, "gpu": 4}]}]},
    ]
    made: dict[str, Any] = {
        **HEAD,
        "kind": "Round",
        "name": "small",
        "now": 1000,
        "cluster": {
            "levels": ["region"],
            "domains": [{"name": "a", "level": "region"}, {"name": "b", "level": "region"}],
            "hosts": [
                {"name": "a[0-1]", "parent": "a", "gpus": 4, "gpu_model": "H100"},
                {"name": "b[0-1]", "parent": "b", "gpus": 4, "gpu_model": "A100"},
            ],
        },
        "tenants": [{"name": "t", "quota": {"gpu": 8}}],
        "caps": {"c.d": {"gpus": 8, "jobs": 2}},
        "reservations": [{"host": "b1"}],
        "policy": {"formulation": formulation},
        "jobs": jobs,
    }
    if formulation == "gang":
        jobs[0] |= {"expected_runtime_s": 100, "running": {**jobs[0]["running"], "started": 950}}
        jobs[1] |= {"held": False, "not_before": 10, "expected_runtime_s": 500}
        made["cluster"]["pools"] = [
            {"resource": "power", "capacity": 9},
            {"resource": "power", "level": "region", "capacity": 9},
        ]
        made["host_sets"] = {"all": ["a[0-1]", "b[0-1]"], "some": ["a0", "b0"]}
        jobs[1]["options"][0]["groups"][0]["host_sets"] = ["all"]
    if formulation == "deadline":
        jobs[1]["deadline"] = {"work_s": 10, "due": [{"at": 9000, "value": 3}]}
    if formulation == "geo":
        jobs[1] |= {"regions": ["a"], "reads": [{"dataset": "d", "gib": 1}]}
        made["geo"] = {"datasets": [{"name": "d", "size": 3, "replicas": ["a"]}]}
    return made


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.yaml"
    write(parse_round(document()), path)
    return path


def changed(**fields: Any) -> dict[str, Any]:
    return {"job": {"waits.long": fields}}


LONG = "waits.long"
GANG, DEADLINE, GEO = "gang", "deadline", "geo"
SAME = (
    (GANG, {"drain": ["a0", "b0"]}, {"drain": ["a0", "b0"]}),
    (GANG, {"fail": ["a[0-1]"]}, {"fail": ["a[0-1]"]}),
    (GANG, {"add": ["b"]}, {"add": {"like": "b"}}),
    (GANG, {"add": ["b1=3"]}, {"add": {"like": "b1", "count": 3}}),
    (GANG, {"quota": ["t.gpu=12"]}, {"quota": {"t": {"to": {"gpu": 12}}}}),
    (GANG, {"quota": ["t.gpu=+250m"]}, {"quota": {"t": {"more": {"gpu": "250m"}}}}),
    (GANG, {"quota": ["t.gpu=-2"]}, {"quota": {"t": {"less": {"gpu": 2}}}}),
    (GANG, {"quota": ["t.memory=64Gi"]}, {"quota": {"t": {"to": {"memory": "64Gi"}}}}),
    (GANG, {"quota": ["t.gpu=none"]}, {"quota": {"t": {"without": ["gpu"]}}}),
    (GANG, {"set": [f"{LONG}.priority=3"]}, changed(priority=3)),
    (GANG, {"set": [f"{LONG}.weight=3"]}, changed(weight=3)),
    (GANG, {"set": [f"{LONG}.held=true"]}, changed(held=True)),
    (GANG, {"set": [f"{LONG}.count=1"]}, changed(count=1)),
    (GANG, {"set": [f"{LONG}.gpu=250m"]}, changed(gpu="250m")),
    (GANG, {"set": [f"{LONG}.memory=4Gi"]}, changed(memory="4Gi")),
    (GANG, {"set": [f"{LONG}.required=region"]}, changed(required="region")),
    (GANG, {"set": [f"{LONG}.not_before=none"]}, changed(without=["not_before"])),
    (GANG, {"set": [f"{LONG}.expected_runtime_s=90m"]}, changed(expected_runtime_s=5400)),
    (GANG, {"set": [f"{LONG}.expected_runtime_s=70"]}, changed(expected_runtime_s=70)),
    (
        GANG,
        {"set": [f"{LONG}.expected_runtime_s=none"]},
        changed(without=["expected_runtime_s"]),
    ),
    (GANG, {"set": [f"{LONG}.gpu_models=H100,A100"]}, changed(gpu_models=["H100", "A100"])),
    (GANG, {"set": [f"{LONG}.gpu_models=+A100"]}, changed(add_gpu_models=["A100"])),
    (GANG, {"set": [f"{LONG}.hosts=a0"]}, changed(hosts=["a0"])),
    (GANG, {"set": [f"{LONG}.host_sets=some, all"]}, changed(host_sets=["some", "all"])),
    (GANG, {"set": [f"{LONG}.host_sets=-all"]}, changed(drop_host_sets=["all"])),
    (GANG, {"set": [f"{LONG}.gpu_links=pcie"]}, changed(gpu_links={"required": "pcie"})),
    (GANG, {"set": [f"{LONG}.num_hosts=1-2"]}, changed(num_hosts={"min": 1, "max": 2})),
    (GANG, {"set": [f"{LONG}.num_hosts=2"]}, changed(num_hosts={"min": 2, "max": 2})),
    (
        GANG,
        {"set": [LONG + ".apart={level: host, most: 1}"]},
        changed(apart={"level": "host", "most": 1}),
    ),
    (
        GANG,
        {"set": [LONG + ".anti_affinity={label: x, level: host}"]},
        changed(anti_affinity={"label": "x", "level": "host"}),
    ),
    (GANG, {"remove": ["runs", LONG]}, {"remove": ["runs", LONG]}),
    (DEADLINE, {"set": [f"{LONG}.due=+1h"]}, changed(due_later_s=3600)),
    (DEADLINE, {"set": [f"{LONG}.due=-10m"]}, changed(due_later_s=-600)),
    (
        DEADLINE,
        {"set": [LONG + ".due=[{at: 5000, value: 2}]"]},
        changed(due=[{"at": 5000, "value": 2}]),
    ),
    (GEO, {"set": [f"{LONG}.regions=+b"]}, changed(add_regions=["b"])),
    (GEO, {"set": [f"{LONG}.remote=false"]}, changed(remote=False)),
    (GEO, {"quota": ["t.gpu@b=4"]}, {"quota": {"t": {"in_regions": {"b": 4}}}}),
)


@pytest.mark.parametrize(("formulation", "options", "edit"), SAME, ids=str)
def test_options_and_a_file_give_the_same_round(formulation, options, edit):
    round_ = parse_round(document(formulation))
    given = read_edits(None, options)
    by_file = parse_edits({"edits": [edit]})
    assert given.applied(round_) == apply_edits(round_, by_file)
    if options != {"set": [f"{LONG}.gpu_models=+A100"]}:
        assert given.applied(round_) != round_


def test_every_field_of_a_job_is_among_them():
    fields = {name for _, _, edit in SAME for one in edit.get("job", {}).values() for name in one}
    rest = {"only", "option", "group", "cpu", "gpu_memory", "resources", "joint_required", "slices"}
    rest |= {"host_sets", "drop_host_sets"}
    assert fields | rest | {"regions", "not_before"} == set(JobEdit.model_fields)


@pytest.mark.parametrize("form", [JOB, {"jobs": [JOB]}])
def test_jobs_are_submitted_from_a_file_of_one_or_several(form, tmp_path):
    file = tmp_path / "jobs.yaml"
    file.write_text(json.dumps(form))
    round_ = parse_round(document())
    by_file = apply_edits(round_, parse_edits({"edits": [{"submit": [JOB]}]}))
    assert read_edits(str(file), {}).applied(round_) == by_file


def test_the_file_comes_first_and_the_round_and_plan_written_belong_together(run, small, tmp_path):
    edits = tmp_path / "edits.yaml"
    write(parse_edits({"edits": [{"release": ["b1"]}, {"add": {"like": "b1"}}]}), edits)
    after, edited, picture = (tmp_path / name for name in ("p.json", "r.yaml", "p.svg"))
    done = run("whatif", small, "-e", edits, "--fail", "new1-b1", "--quota", "t.gpu=none",
               "-o", after, "--edited", edited, "--picture", picture)  # fmt: skip
    assert done.code == 0, done.err
    assert "  Host new1-b1 fails.\n" in done.out
    assert "waits.long" in done.out
    assert "starts" in done.out
    round_ = load_round(edited)
    assert verify(round_, load_plan(after)).ok
    assert [host.name for host in round_.cluster.hosts if not host.healthy] == ["new1-b1"]
    assert "before" in picture.read_text()
    assert f"wrote {picture}" in done.err


def test_nothing_differs_and_the_answer_says_so(run, small, tmp_path):
    edits = tmp_path / "edits.yaml"
    edits.write_text("[{restore: [a0]}]")
    done = run("whatif", small, "-e", edits)
    assert done.code == 0
    assert "Host a0 is back.\n\nNothing differs.\n" in done.out
    assert "Objective" not in done.out


def test_an_object_says_what_the_tables_say(run, small):
    done = run("whatif", small, "--quota", "t.gpu=+4", "--format", "json")
    found = json.loads(done.out)
    assert found["edits"] == [{"quota": {"t": {"more": {"gpu": 4}}}}]
    assert found["sentences"] == ["Tenant t may hold 4 GPUs more."]
    assert [(one["job"], one["change"]) for one in found["jobs"]] == [("waits.long", "starts")]
    value = found["terms"][0]
    assert (value["name"], value["difference"], value["verdict"]) == ("value", 8000, "proven")
    assert value["at_least"] == value["at_most"] == 8000
    assert found["empty"] is False
    assert {one["level"] for one in found["free"]} == {"region", "host"}


def test_a_plan_is_taken_as_it_is_if_it_is_valid(run, small, tmp_path):
    plan, other = tmp_path / "plan.json", tmp_path / "other.yaml"
    assert run("solve", small, "-o", plan).code == 0
    assert run("whatif", small, "--plan", plan, "--remove", "runs").code == 0
    raw = document()
    raw["jobs"].pop()
    write(parse_round(raw), other)
    assert run("whatif", other, "--plan", plan, "--remove", "runs").code == 3
    broken = json.loads(plan.read_text())
    broken["decisions"] *= 2
    plan.write_text(json.dumps(broken))
    assert run("whatif", small, "--plan", plan, "--remove", "runs").code == 7


WRONG = (
    ("--fail a9", "--fail: 'a9': unknown host a9; expected hosts of the cluster"),
    ("--add c", "--add: like: 'c': unknown domain or host; expected a or a0"),
    ("--add a=0", "--add: count: 0: expected at least 1"),
    ("--quota gpu=3", "--quota: gpu=3: expected TENANT.RESOURCE=AMOUNT"),
    ("--quota T.gpu=3", "--quota: T: 'T': unknown tenant; expected t; did you mean t?"),
    ("--quota t.gpu=x", "--quota: t.to.gpu: 'x': expected GPUs as a number"),
    ("--quota t.gpu@b=+3", "--quota: t.gpu@b=+3: expected TENANT.gpu@REGION=AMOUNT"),
    ("--quota t.gpu@b=3", "--quota: t.in_regions.b: policy gang knows no quotas of regions"),
    ("--set waits.long.prio=3", "expected JOB.FIELD=VALUE with a field of jobs; did you mean"),
    ("--set wait.count=3", "--set: wait: 'wait': unknown job; expected runs or waits.long"),
    ("--set waits.long.count=0", "--set: ['waits.long'].count: 0: expected at least 1"),
    ("--set waits.long.required=rak", "--set: leads to an invalid round: jobs[1].options[0]"),
    ("--at +2h", "--at: no option any more; expected -e FILE with: - advance_s: 7200"),
    ("-f j.yaml", "-f: no option any more; expected -e FILE with: - submit: [{name:"),
    ("--cap c.gpus=1", "--cap: no option any more; expected -e FILE with: - cap: {lab:"),
    ("--picture p.gif", "--picture: p.gif is no picture's name"),
    ("-o - --format json", "-o: expected a file beside --format json"),
)


@pytest.mark.parametrize(("words", "said"), WRONG)
def test_wrong_options_are_told_in_one_line(run, small, words, said):
    done = run("whatif", small, *shlex.split(words))
    assert done.code == 2
    assert said in done.err
    assert done.err.count("\n") == 1


def test_an_edit_of_a_file_is_told_by_file_and_number(run, small, tmp_path):
    edits = tmp_path / "edits.yaml"
    text = "apiVersion: placewright/v1alpha2\nkind: Edits\nedits:\n"
    edits.write_text(f"{text}  - fail: [a0]\n  - quota: {{T: {{more: {{gpu: 1}}}}}}\n")
    done = run("whatif", small, "-e", edits)
    assert done.code == 3
    assert (
        f"{edits}: edits[1].quota.T: 'T': unknown tenant; expected t; did you mean t?" in done.err
    )
    edits.write_text(f"{text}  - fail: [a0]\n  - fial: [a0]\n")
    done = run("whatif", small, "-e", edits)
    assert done.code == 3
    assert f"{edits}:5: edits[1].fial" in done.err
    assert "did you mean fail?" in done.err
    jobs = tmp_path / "jobs.yaml"
    jobs.write_text("{name: new, options: [{groups: [{gpu: x}]}]}")
    done = run("whatif", small, "-e", jobs)
    assert done.code == 3
    assert f"{jobs}: edits[0].submit[0].options[0].groups[0].gpu: 'x': expected GPUs" in done.err


def test_what_is_printed_of_names_is_escaped(run, small, tmp_path):
    edits = tmp_path / "edits.json"
    edits.write_text(
        json.dumps({**HEAD, "kind": "Edits", "edits": [{"fail": ["a\u001b[31m"]}]}),
    )
    done = run("whatif", small, "-e", edits)
    assert done.code == 3
    assert "\x1b" not in done.err


def test_diff_compares_two_plans_of_one_round_or_of_two(run, small, tmp_path):
    plan, other, after, edited = (tmp_path / n for n in ("p.json", "o.json", "a.json", "e.yaml"))
    assert run("solve", small, "-o", plan).code == 0
    assert run("solve", small, "-o", other, "--time-limit", "0").code == 0
    same = run("diff", small, plan, plan)
    assert same.code == 0
    assert same.out == "Nothing differs.\n\n"
    run("whatif", small, "--quota", "t.gpu=none", "-o", after, "--edited", edited)
    assert run("diff", small, plan, after).code == 3
    done = run("diff", small, plan, after, "--round-after", edited, "--picture", tmp_path / "d.png")
    assert done.code == 0
    assert "waits.long" in done.out
    found = json.loads(
        run("diff", small, plan, after, "--round-after", edited, "--format", "json").out
    )
    assert [one["change"] for one in found["jobs"]] == ["starts"]
    assert (tmp_path / "d.png").stat().st_size > 1000


def test_edits_are_validated_and_not_shown(run, tmp_path):
    edits = tmp_path / "edits.yaml"
    write(parse_edits({"edits": [{"fail": ["a0"]}]}), edits)
    done = run("validate", edits)
    assert done.code == 0
    assert done.out == f"{edits}: valid Edits, 1 edit\n"
    done = run("show", edits)
    assert done.code == 2
    assert "is an Edits; expected a Round, a Plan or a Cluster" in done.err


def test_a_drawn_difference_has_both_maps_whatever_changes(tmp_path):
    from placewright.cli.views.picture import draw_difference
    from placewright.explain.whatif import whatif

    round_: Round = parse_round(document())
    for number, edit in enumerate(
        ({"fail": ["a0"]}, {"remove": ["runs"]}, {"add": {"like": "b"}}, {"submit": [JOB]})
    ):
        answer = whatif(round_, parse_edits({"edits": [edit]}), isolation="none")
        path = tmp_path / f"{number}.svg"
        draw_difference(answer.round, answer.before, answer.round_after, answer.after, str(path))
        assert ">before<" in path.read_text()
        assert ">after<" in path.read_text()


def test_a_cluster_without_gpus_has_no_picture(run, tmp_path):
    round_ = Path(__file__).parents[2] / "instances" / "library" / "drf-100-cpus.yaml"
    done = run("whatif", round_, "--remove", "x", "--picture", tmp_path / "p.svg")
    assert done.code == 2
    assert "--picture: " in done.err
    assert "has no GPUs to draw" in done.err
