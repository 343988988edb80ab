"""One question at a time: the queue, callers that leave, limits that pass, processes that die."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from pathlib import Path

import pytest

from placewright.instances.generators.gang import generate_round
from placewright.instances.io.files import json_text
from placewright.live.serve import lane as lanes
from placewright.live.serve.lane import BusyError, GoneError, Lane, Question

AT_WORK_S = 0.2
"""CPU seconds of a solver's process, after which it has begun."""


@pytest.fixture
def slow():
    """A question that takes a while: bounds of it are not proven soon."""
    round_ = generate_round(256, 60, mix="tight", seed=1)
    limits = round_.limits.model_copy(update={"time_s": 3600.0})
    return json_text(round_.model_copy(update={"limits": limits})).encode()


@pytest.fixture
def quick(bundled):
    return json.dumps(bundled("quickstart")).encode()


async def never():
    await asyncio.Event().wait()


def run(test):
    """Run a test with a lane, and end the lane."""

    async def whole():
        lane = Lane(1, lambda _: None)
        try:
            await test(lane)
        finally:
            await lane.close()

    asyncio.run(whole())


def processes():
    """Return the processes below this one, by id, with what they run."""
    found, waiting = {}, [os.getpid()]
    while waiting:
        for task in Path(f"/proc/{waiting.pop()}/task").glob("*"):
            try:
                children = (task / "children").read_text().split()
            except OSError:
                continue
            for child in children:
                waiting.append(int(child))
                try:
                    found[int(child)] = Path(f"/proc/{child}/cmdline").read_text()
                except OSError:
                    continue
    return found


def cpu_seconds(pid):
    try:
        user = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11]
    except OSError:
        return 0.0
    return int(user) / os.sysconf("SC_CLK_TCK")


async def until(condition):
    deadline = time.monotonic() + 60
    while not (found := condition()):
        assert time.monotonic() < deadline
        await asyncio.sleep(0.02)
    return found


def those_of(module):
    return [pid for pid, words in processes().items() if module in words]


def workers():
    return those_of("placewright.live.serve.questions:work")


def solvers():
    return those_of("placewright.solver.worker:answer")


def all_gone(before):
    """Whether the processes are gone; those that ended and nobody asked about count as gone."""

    def is_gone(pid):
        try:
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
        except OSError:
            return True

    return lambda: all(is_gone(pid) for pid in before)


def test_the_queue_is_as_long_as_it_is():
    async def test(lane):
        async with lane.place(), lane.place():
            with pytest.raises(BusyError) as error:
                async with lane.place():
                    pass
            assert error.value.seconds >= 1
        async with lane.place():
            pass

    run(test)


@pytest.mark.nightly
def test_questions_are_answered_one_after_the_other(quick):
    async def test(lane):
        answers = await asyncio.gather(
            *(lane.ask(Question("solve", quick, 5.0), never) for _ in range(3))
        )
        assert [one.status for one in answers] == [200] * 3
        assert len(workers()) == 1

    run(test)


def test_when_the_caller_leaves_all_processes_end(slow, quick):
    async def test(lane):
        leave = asyncio.Event()
        asking = asyncio.create_task(lane.ask(Question("solve", slow, 600.0), leave.wait))
        at_work = await until(solvers)
        at_work += workers()
        leave.set()
        with pytest.raises(GoneError):
            await asking
        await until(all_gone(at_work))
        assert (await lane.ask(Question("solve", quick, 5.0), never)).status == 200

    run(test)


def test_who_leaves_the_queue_stops_nobody(slow, quick):
    async def test(lane):
        first, second = asyncio.Event(), asyncio.Event()
        working = asyncio.create_task(lane.ask(Question("solve", slow, 600.0), first.wait))
        before = await until(workers)
        waiting = asyncio.create_task(lane.ask(Question("solve", quick, 5.0), second.wait))
        await asyncio.sleep(0.1)
        second.set()
        with pytest.raises(GoneError):
            await waiting
        assert workers() == before
        assert not working.done()
        first.set()
        with pytest.raises(GoneError):
            await working

    run(test)


def test_beyond_its_limit_a_question_ends(slow, quick, monkeypatch):
    monkeypatch.setattr(lanes, "GRACE_SECONDS", 0.0)
    monkeypatch.setattr(lanes, "GRACE_SHARE", -0.999)

    async def test(lane):
        answer = await lane.ask(Question("solve", slow, 600.0), never)  # it has 0.6 s
        assert answer.status == 503
        assert b"took longer" in answer.body
        await until(lambda: not workers())
        monkeypatch.setattr(lanes, "GRACE_SECONDS", 60.0)
        assert (await lane.ask(Question("solve", quick, 5.0), never)).status == 200

    run(test)


@pytest.mark.nightly
def test_a_killed_process_costs_one_answer(slow, quick):
    async def test(lane):
        asking = asyncio.create_task(lane.ask(Question("solve", slow, 600.0), never))
        await until(solvers)
        (worker,) = workers()
        os.kill(worker, signal.SIGKILL)
        answer = await asking
        assert answer.status == 503
        assert b"SIGKILL" in answer.body
        await until(lambda: not solvers())
        assert (await lane.ask(Question("solve", quick, 5.0), never)).status == 200

    run(test)


@pytest.mark.nightly
def test_a_killed_solver_costs_one_degraded_answer(slow, quick):
    async def test(lane):
        asking = asyncio.create_task(lane.ask(Question("solve", slow, 15.0), never))
        (solver,) = await until(lambda: [pid for pid in solvers() if cpu_seconds(pid) > AT_WORK_S])
        os.kill(solver, signal.SIGKILL)
        answer = await asking
        assert answer.status == 200
        assert "SIGKILL" in " ".join(json.loads(answer.body)["certificate"]["degraded"])
        whole = await lane.ask(Question("solve", quick, 30.0), never)
        assert json.loads(whole.body)["certificate"]["degraded"] == []

    run(test)


@pytest.mark.nightly
def test_what_is_shown_comes_after_the_answer(quick):
    shown = []

    async def whole():
        lane = Lane(1, shown.append)
        try:
            answer = await lane.ask(Question("solve", quick, 5.0, publish=True), never)
            assert answer.follows
            # The next one waits for it.
            assert (await lane.ask(Question("solve", quick, 5.0), never)).status == 200
            assert len(shown) == 1
        finally:
            await lane.close()

    asyncio.run(whole())
    assert shown[0].jobs["colossus"].why.startswith("never_fits: ")


@pytest.mark.nightly
def test_a_process_that_holds_much_memory_is_replaced(quick, monkeypatch):
    async def test(lane):
        lane.start()
        assert (await lane.ask(Question("solve", quick, 5.0), never)).status == 200
        (first,) = workers()  # once it has answered it is certainly there
        assert (await lane.ask(Question("solve", quick, 5.0), never)).status == 200
        assert workers() == [first]
        monkeypatch.setattr(lanes, "MOST_IDLE_MIB", 1)
        assert (await lane.ask(Question("solve", quick, 5.0), never)).status == 200
        assert workers() != [first]
        assert (await lane.ask(Question("solve", quick, 5.0), never)).status == 200

    run(test)


@pytest.mark.nightly
def test_where_no_process_can_be_started_the_caller_is_told(quick, monkeypatch):
    def fail(_module):
        raise OSError(24, "Too many open files")

    async def test(lane):
        with monkeypatch.context() as patched:
            patched.setattr(lanes.Child, "start", fail)
            lane.start()
            answer = await lane.ask(Question("solve", quick, 5.0), never)
            assert answer.status == 503
        assert (await lane.ask(Question("solve", quick, 5.0), never)).status == 200

    run(test)


@pytest.mark.nightly
def test_when_to_ask_again_is_no_later_than_the_limit(quick):
    async def test(lane):
        assert (await lane.ask(Question("solve", quick, 600.0), never)).status == 200
        async with lane.place(), lane.place():
            with pytest.raises(BusyError) as error:
                async with lane.place():
                    pass
            assert 1 <= error.value.seconds < 600

    run(test)


@pytest.mark.nightly
def test_a_closed_lane_leaves_no_process(slow):
    before = []

    async def test(lane):
        asking = asyncio.create_task(lane.ask(Question("solve", slow, 600.0), never))
        before.extend(await until(solvers))
        before.extend(workers())
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)

    run(test)
    assert before
    asyncio.run(until(all_gone(before)))
