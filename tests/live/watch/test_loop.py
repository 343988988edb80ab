"""The loop of a watch goes on whatever fails, and acts on no state that is old."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
import slurm_dumps

from placewright import Plan, Round, load_round, verify
from placewright.instances.converters import Bookkeeping, LiveConversion
from placewright.instances.derived.slurm_marks import HELD
from placewright.instances.documents.plan import Decision, DecisionKind, Task
from placewright.instances.exporters.slurm import Command, State, Step, Steps
from placewright.instances.io.files import load_plan, parse_round
from placewright.live.watch import slurm
from placewright.live.watch.loop import (
    DECIDED_AGAIN,
    FAILURE,
    HEARTBEAT,
    METRICS,
    MOST_FAILURES,
    MOST_PATIENCE_S,
    PATIENCE_S,
    PLAN,
    ROUND,
    Acted,
    Follower,
    GivenUpError,
    Pace,
    Reading,
    Record,
    Sent,
    SourceError,
    changes_between,
    watch,
)
from placewright.live.watch.slurm import SlurmActor


def round_of(now: int = 0, *, healthy: bool = True, **jobs: str | None) -> Round:
    """Two hosts of 2 GPUs, and jobs of 2 GPUs: name to host, or None if it waits."""
    return parse_round(
        {
            "apiVersion": "placewright/v1alpha2",
            "kind": "Round",
            "name": "live",
            "now": now,
            "cluster": {
                "hosts": [
                    {"name": "h0", "gpus": 2, "gpu_model": "X"},
                    {"name": "h1", "gpus": 2, "gpu_model": "X", "healthy": healthy},
                ]
            },
            "jobs": [
                {
                    "name": name,
                    "options": [{"groups": [{"gpu": 2}]}],
                    **(
                        {"running": {"tasks": [{"host": host, "gpus": [0, 1]}], "pinned": True}}
                        if host
                        else {}
                    ),
                }
                for name, host in jobs.items()
            ],
        }
    )


class States:
    """A source of states: each is a round, or an error."""

    def __init__(self, *states: Round | Exception, age: float = 0.0) -> None:
        self.states = list(states)
        self.waited: list[float] = []
        self.age = age

    def read(self) -> Reading:
        state = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        if isinstance(state, Exception):
            raise state
        return Reading(LiveConversion(state, "state", Bookkeeping()), time.monotonic() - self.age)

    def wait(self, seconds: float) -> None:
        self.waited.append(seconds)


class Acts:
    """An actor that notes what it gets; it does not do what `undone` says."""

    def __init__(self, *undone: list[str]) -> None:
        self.got: list[tuple[Round, Plan]] = []
        self.undone = list(undone)

    def commands(self, round_: Round, plan: Plan) -> tuple[str, list[str]]:
        return "# nothing\n", ["cannot be told: nothing"]

    def act(self, round_: Round, plan: Plan, until: float) -> Acted:
        self.got.append((round_, plan))
        return Acted(undone=tuple(self.undone.pop(0)) if self.undone else ())


def play(source: States, folder: Path, rounds: int, *undone: list[str]) -> tuple[Acts, list[str]]:
    actor, said = Acts(*undone), []
    pace = Pace(every_s=10, max_age_s=60, rounds=rounds)
    with Follower(time_limit=2.0) as follower:
        watch(source, follower, actor, Record(folder), pace, said.append)
    return actor, said


def decisions(plan: Plan) -> dict[str, str]:
    return {one.job: one.decision.value for one in plan.decisions}


def test_it_decides_when_something_changed_and_writes_round_and_plan(tmp_path):
    source = States(
        round_of(1, a=None), round_of(2, a=None), round_of(3, a="h0", b=None), round_of(4, a="h0")
    )
    actor, _ = play(source, tmp_path, 3)
    assert [decisions(plan) for _, plan in actor.got] == [
        {"a": "start"},
        {"a": "keep", "b": "start"},
        {"a": "keep"},
    ]
    assert source.waited == [pytest.approx(7.5, abs=2.5)] * 3
    last, plan = load_round(tmp_path / ROUND), load_plan(tmp_path / PLAN)
    assert last.now == 4
    assert verify(last, plan).ok
    assert abs(int((tmp_path / HEARTBEAT).read_text()) - time.time()) < 60
    assert {path.name for path in tmp_path.iterdir()} == {
        *(ROUND, PLAN, HEARTBEAT, METRICS, "commands.sh")
    }


def test_nothing_new_is_decided_again_after_a_while(tmp_path):
    source = States(round_of(1, a=None))
    actor, _ = play(source, tmp_path, 2)
    assert len(actor.got) == 2
    assert len(source.waited) == DECIDED_AGAIN


def test_a_scheduler_that_is_down_is_asked_again_more_and_more_rarely(tmp_path):
    down = SourceError("squeue failed: \x1b[31mConnection refused")
    actor, said = play(States(down, down, down, round_of(1, a=None)), tmp_path, 1)
    assert len(actor.got) == 1
    assert said[:3] == [r"nothing was decided: squeue failed: \x1b[31mConnection refused"] * 3


def test_pauses_double_and_end_with_the_first_answer(tmp_path):
    down = SourceError("down")
    source = States(down, down, down, round_of(1, a=None), round_of(2, a="h0"))
    play(source, tmp_path, 2)
    assert source.waited == [20, 40, 80, pytest.approx(7.5, abs=2.5)]


def test_a_state_that_is_too_old_is_not_acted_on(tmp_path):
    actor, said = play(States(round_of(1, a=None), age=3600), tmp_path, 1)
    assert actor.got == []
    assert said[-1].startswith("not carried out: read 36")
    assert json.loads((tmp_path / PLAN).read_text())["decisions"][0]["decision"] == "start"


def test_what_was_not_done_is_decided_anew_at_once_when_seen_again(tmp_path):
    source = States(round_of(1, a=None))
    actor, said = play(source, tmp_path, 2, ["not done: start a"])
    assert len(actor.got) == 2
    assert source.waited == [pytest.approx(7.5, abs=2.5)]
    assert "not done: start a" in said


def test_whatever_a_look_raises_is_told_recorded_and_counted_and_it_looks_again(tmp_path):
    wrong = RuntimeError("a fault\nof ours")
    source = States(round_of(1, a=None), wrong, wrong, round_of(2, a="h0"))
    actor, said = play(source, tmp_path, 2)
    assert len(actor.got) == 2
    (line,) = {line for line in said if "nothing was decided" in line}
    assert line.startswith("nothing was decided: internal error: RuntimeError: a fault of ours (")
    assert line.endswith("please report it")
    report = (tmp_path / FAILURE).read_text()
    assert "failure 2 in a row" in report
    assert "Traceback" in report
    metrics = dict(line.split() for line in (tmp_path / METRICS).read_text().splitlines()[1::2])
    assert metrics == {
        "placewright_watch_looks_total": "4",
        "placewright_watch_rounds_total": "2",
        "placewright_watch_failures_total": "2",
        "placewright_watch_failures_in_a_row": "0",
    }


@pytest.mark.parametrize("wrong", [SourceError("down"), ValueError("odd")])
def test_it_gives_up_after_so_many_failures_in_a_row(tmp_path, wrong):
    source = States(wrong)
    with pytest.raises(GivenUpError, match=rf"^{MOST_FAILURES} looks in a row failed; .*: "):
        play(source, tmp_path, 1)
    assert len(source.waited) == MOST_FAILURES - 1
    assert max(source.waited) == MOST_PATIENCE_S


def test_a_decider_that_failed_begins_anew(tmp_path, monkeypatch):
    """As does what was sent: whatever of it was wrong cannot fail the next look as well."""
    decide, fails = Follower.decide, [True]

    def once(follower, coming):
        if fails:
            fails.pop()
            raise KeyError("lost")
        assert follower._engine is None
        return decide(follower, coming)

    monkeypatch.setattr(Follower, "decide", once)
    actor, _ = play(States(round_of(1, a=None)), tmp_path, 1)
    assert decisions(actor.got[0][1]) == {"a": "start"}


def test_a_record_that_cannot_be_written_is_told(tmp_path, monkeypatch):
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Record, "count", full)
    _, said = play(States(round_of(1, a=None)), tmp_path, 1)
    assert said[-1] == "after a look: [Errno 28] No space left on device"


def test_what_is_left_out_is_told_once_and_when_it_changes(tmp_path):
    source = States(round_of(1, a=None), round_of(2, a="h0"))
    book = Bookkeeping()
    book.leave("jobs", "asks for no GPU", "17")
    read = source.read
    source.read = lambda: Reading(read().made._replace(book=book), time.monotonic())
    _, said = play(source, tmp_path, 2)
    told = [line for line in said if not line.startswith("state: ")]
    assert told == [
        "jobs: 0 of 1 in the round",
        "left out: 1 job: asks for no GPU: 17",
        "cannot be told: nothing",
    ]


def test_a_job_that_is_told_to_wait_does_not_count_as_sent():
    sent, round_ = Sent(), round_of(1, a=None)
    plan = Plan(decisions=(Decision(job="a", decision=DecisionKind.WAIT),))
    sent.note(plan, {"a"})
    assert sent.applied_to(round_) is round_


@pytest.mark.parametrize(
    "after",
    [
        round_of(5, a="h0", b=None),
        round_of(5, b=None),
        round_of(5, healthy=False, a=None),
        round_of(0, a="h1"),
    ],
)
def test_changes_lead_to_the_state_that_was_read(after):
    with Follower(time_limit=2.0) as follower:
        follower.decide(round_of(0, a=None))
        engine = follower._engine
        solved, plan = follower.decide(after)
        assert follower._engine is engine
    assert {job.name: job for job in solved.jobs} == {job.name: job for job in after.jobs}
    assert solved.cluster.hosts == after.cluster.hosts
    assert verify(solved, plan).ok


def test_another_cluster_begins_a_new_engine():
    before, after = round_of(0, a=None), round_of(5, a=None)
    hosts = after.cluster.hosts[:1]
    smaller = after.model_copy(
        update={"cluster": after.cluster.model_copy(update={"hosts": hosts})}
    )
    assert changes_between(before, smaller) is None
    with Follower(time_limit=2.0) as follower:
        follower.decide(before)
        solved, plan = follower.decide(smaller)
    assert solved.cluster.hosts == hosts
    assert verify(solved, plan).ok


def test_a_job_that_was_sent_counts_as_running_there_for_a_while():
    now = [0.0]
    sent = Sent(clock=lambda: now[0])
    before = round_of(1, a=None, b=None)
    plan = Plan(
        decisions=(
            Decision(job="a", decision=DecisionKind.START, option=0, tasks=TASKS),
            Decision(job="b", decision=DecisionKind.WAIT),
        )
    )
    sent.note(plan, {"a"})
    made = sent.applied_to(before)
    assert [job.running is not None for job in made.jobs] == [True, False]
    assert made.jobs[0].running is not None
    assert made.jobs[0].running.pinned
    taken = sent.applied_to(round_of(2, a=None, c="h1"))
    assert taken.jobs[0].running is None, "something else runs there"
    sent.note(plan, {"a"})
    now[0] = PATIENCE_S
    assert sent.applied_to(before) is before, "it has not started in time"


def test_of_the_jobs_that_were_sent_only_those_without_room_are_decided_anew():
    sent = Sent()
    there = {"a": (Task(host="h0", gpus=(0, 1)),), "b": TASKS}
    plan = Plan(
        decisions=tuple(
            Decision(job=name, decision=DecisionKind.START, option=0, tasks=tasks)
            for name, tasks in there.items()
        )
    )
    sent.note(plan, there)
    made = sent.applied_to(round_of(2, a=None, b=None, c="h0"))
    assert [job.name for job in made.jobs if job.running is not None] == ["b", "c"]
    drained = round_of(3, a=None, b=None, healthy=False)
    assert sent.applied_to(drained) is drained


def test_slurm_is_looked_at_again_soon_after_a_job_has_ended(monkeypatch):
    slept: list[float] = []
    answers = iter(["1 RUNNING\n", None, ""])
    monkeypatch.setattr(slurm, "run", lambda *_, timeout_s: (next(answers), ""))
    monkeypatch.setattr(slurm.time, "sleep", slept.append)
    source = slurm.SlurmSource(timeout_s=1, movable=False)
    source._probed = "1 RUNNING\n"
    source.wait(40)
    assert slept == [pytest.approx(10)] * 3


def test_a_job_begins_at_its_time_though_nothing_else_happens(monkeypatch):
    """The time of a round is that of the look: old dialects of Slurm do not say theirs."""
    jobs = [slurm_dumps.job(1, tres_per_node="gpu:8", eligible_time=5000)]
    nodes = [slurm_dumps.node("h0")]
    said = {"jobs": json.dumps({"jobs": jobs}), "nodes": json.dumps({"nodes": nodes})}

    def run(words, timeout_s):
        return {"squeue": said["jobs"], "sinfo": said["nodes"]}.get(words[0]), ""

    monkeypatch.setattr(slurm, "run", run)
    source, begins = slurm.SlurmSource(timeout_s=1, movable=False), []
    for now in (4990, 5000):
        monkeypatch.setattr(slurm.time, "time", lambda now=now: float(now))
        begins.append(source.read().round.jobs[0].not_before)
    assert begins == [5000, None]


def test_jobs_are_told_again_why_they_wait_when_more_than_numbers_changed(monkeypatch):
    """Else hundreds of jobs whose reservations move by a second take all time of a look."""
    written, why = [], ["has a reservation at 07:00"]

    def run(words, timeout_s):
        written.extend([words[-1]] if words[0] == "scontrol" else [])
        return f"{'PENDING':20}{'JobHeldUser':60}{HELD}", ""

    def steps(*_):
        comment = ("scontrol", "update", "jobid=7", f"AdminComment={why[-1]}")
        return Steps([Step("7", "say why 7 waits", State.PENDING, (Command(comment),))])

    monkeypatch.setattr(slurm, "run", run)
    monkeypatch.setattr(slurm, "slurm_steps", steps)
    actor = SlurmActor(timeout_s=1, applies=True, comments=False)
    for said in ("has a reservation at 07:00", "has a reservation at 07:01", "job 6 runs"):
        why.append(said)
        assert actor.act(round_of(), Plan(decisions=()), time.monotonic() + 9).undone == ()
    assert written == ["AdminComment=has a reservation at 07:00", "AdminComment=job 6 runs"]
    monkeypatch.setattr(slurm, "TELLING_S", 0.0)
    why.append("there was no time to tell")
    assert actor.act(round_of(), Plan(decisions=()), time.monotonic() + 9).undone == ()
    assert len(written) == 2


@pytest.mark.parametrize(("asked", "then"), [("", "ReqNodeList="), ("ReqNodeList=h1", "h1")])
def test_a_job_that_was_sent_in_vain_is_left_to_slurm(monkeypatch, asked, then):
    """Slurm keeps it from those hosts for a reason that no dump says: it may have others."""
    written = []

    def run(words, timeout_s):
        written.extend([words[-2]] if words[0] == "scontrol" else [])
        return f"{'PENDING':20}{'Resources':60}{HELD}", ""

    def steps(*_):
        words = ("scontrol", "update", "jobid=7", "ReqNodeList=h1", f"AdminComment=to h1 {asked}")
        return Steps([Step("7", "start 7 on h1", State.PENDING, (Command(words),))])

    monkeypatch.setattr(slurm, "run", run)
    monkeypatch.setattr(slurm, "slurm_steps", steps)
    actor = SlurmActor(timeout_s=1, applies=True, comments=False)
    start = Decision(job="7", decision=DecisionKind.START, option=0, tasks=TASKS)
    for _ in range(2):
        actor.act(round_of(), Plan(decisions=(start,)), time.monotonic() + 9)
    assert written[0] == "ReqNodeList=h1"
    assert written[1].endswith(then)


def test_the_head_of_anothers_queue_leaves_no_reservation_to_a_job_behind_it():
    """Slurm reserves anew each time; kept, one of low priority would delay a gang before it."""
    one, both = [{"groups": [{"gpu": 2}]}], [{"groups": [{"gpu": 2, "count": 2}]}]
    runs = {
        name: {
            "name": name,
            "options": one,
            "expected_runtime_s": runtime,
            "running": {"started": 0, "pinned": True, "tasks": [{"host": host, "gpus": [0, 1]}]},
        }
        for name, host, runtime in (("r0", "h0", 100), ("r1", "h1", 200))
    }
    gang = {"name": "gang", "options": both, "expected_runtime_s": 10}
    behind = {"name": "behind", "options": one, "expected_runtime_s": 60}
    raw = {
        "apiVersion": "placewright/v1alpha2",
        "kind": "Round",
        "name": "queue",
        "now": 40,
        "cluster": {"hosts": [{"name": name, "gpus": 2, "gpu_model": "X"} for name in HOSTS]},
        "policy": {"backfill": {"depth": "all", "order": "listed"}},
        "jobs": [*runs.values(), gang, behind],
    }
    with Follower(time_limit=2.0) as follower:
        for now, going, at in ((40, ("r0", "r1"), 200), (50, ("r0",), 100)):
            jobs = [*(runs[name] for name in going), gang, behind]
            _, plan = follower.decide(parse_round(raw | {"now": now, "jobs": jobs}))
            (section,) = (one for one in plan.sections if one["kind"] == "reservations")
            assert next(one["at"] for one in section["jobs"] if one["job"] == "gang") == at


HOSTS = ("h0", "h1")
TASKS = (Task(host="h1", gpus=(0, 1)),)
