"""Accounts, QOS and limits as slurmdbd keeps them and sacctmgr prints them."""

from __future__ import annotations

import pytest

from benchmarks.slurm_accounts import MARIADB, SLURMDBD, Accounts
from benchmarks.slurm_lab import Lab, Size
from benchmarks.slurm_trip import apply, differences, read
from placewright import solve_round
from placewright.instances.derived.slurm_marks import HELD
from placewright.instances.documents.plan import DecisionKind
from placewright.live.watch.slurm import SlurmSource

pytestmark = [
    pytest.mark.slurm,
    pytest.mark.nightly,
    pytest.mark.skipif(
        not (MARIADB.exists() and SLURMDBD.exists()), reason="needs slurmdbd and MariaDB"
    ),
]


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    folder = tmp_path_factory.mktemp("accounts")
    size = Size(hosts=4, per_leaf=2, per_spine=2)
    with (
        Accounts(folder) as accounts,
        Lab(folder, size, f"{accounts.configuration}\nLicenses=matlab:2") as made,
    ):
        for words in (
            "add account research GrpTRES=gres/gpu=16",
            "add account vision parent=research",
            "add account prod",
            "add user root account=vision,prod",
            "add qos high set Preempt=normal MaxTRESPerUser=gres/gpu=8",
            "modify user root set qos+=high",
        ):
            made.run("sacctmgr", "-i", *words.split())
        yield made


@pytest.fixture
def submit(lab):
    lab.cancel_all()

    def held(*options):
        number = lab.submit("--nodes=1", "--gpus-per-node=8", "--time=60", "--hold", *options)
        lab.run("scontrol", "update", f"jobid={number}", f"AdminComment={HELD}")
        return number

    return held


def test_an_account_has_no_more_than_the_account_above_it_allows(lab, submit):
    numbers = [submit("--account=vision") for _ in range(3)]
    plan = solve_round(round_ := read(lab))
    assert {job.tenant for job in round_.jobs} == {"research"}
    waiting = [d for d in plan.decisions if d.decision is DecisionKind.WAIT]
    assert [d.reason for d in waiting] == ["reserved"]
    after = apply(lab, round_, plan)
    assert not differences(plan, after)
    assert sum(after[number].state == "RUNNING" for number in numbers) == 2
    shown = lab.run("scontrol", "show", "job", waiting[0].job)
    assert "AdminComment=placewright: held, waits: has a reservation" in shown


def test_where_slurm_preempts_nobody_a_qos_gives_no_priority(lab, submit):
    submit("--account=prod")
    submit("--account=prod", "--qos=high")
    assert [job.priority for job in read(lab).jobs] == [0, 0]  # PreemptType=preempt/none


def test_a_user_has_no_more_than_its_qos_allows(lab, submit):
    first, second = (submit("--account=prod", "--qos=high") for _ in range(2))
    plan = solve_round(round_ := read(lab))
    assert round_.caps["qos/high/user/root"].gpus == 8000
    after = apply(lab, round_, plan)
    assert not differences(plan, after)
    assert {after[number].state for number in (first, second)} == {"RUNNING", "PENDING"}
    lab.run("scontrol", "release", str(second if after[first].state == "RUNNING" else first))
    reasons = {job.reason for job in lab.settle(quiet_s=3).values()}
    assert "QOSMaxGRESPerUser" in reasons  # as Slurm itself says
    assert len(read(lab).jobs) == 2


def test_a_watch_asks_for_licences_and_for_the_tree_of_accounts(lab, submit, monkeypatch):
    for name, value in lab.environment.items():
        monkeypatch.setenv(name, value)
    submit("--account=vision", "--licenses=matlab:2")
    made = SlurmSource(timeout_s=20, movable=False).read().made
    assert [job.tenant for job in made.round.jobs] == ["research"]
    assert [pool.resource for pool in made.round.cluster.pools] == ["license/matlab"]
    assert not [what for what in made.book.unsaid if "ParentName" in what or "licences" in what]
