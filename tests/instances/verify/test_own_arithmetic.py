"""The verifier's own lease arithmetic and speeds equal those that formulations use."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from placewright.instances.derived import leases as theirs
from placewright.instances.derived.speed import speed
from placewright.instances.documents.deadline import Pace
from placewright.instances.documents.job import Job
from placewright.instances.documents.option import Option
from placewright.instances.verify.rules.deadline import leases as own
from placewright.instances.verify.rules.interleaving import speed_alone

MODELS = ("V100", "A100", "H100")


@st.composite
def paces(draw):
    hosts = sorted(draw(st.sets(st.integers(2, 12), max_size=4)))
    return Pace(
        speed=draw(st.integers(1, 3000)),
        overhead_s=draw(st.integers(0, 120)),
        spanning=tuple((number, draw(st.integers(1, 2000))) for number in hosts),
    )


@given(paces(), st.integers(1, 200), st.integers(1, 15), st.integers(0, 10**6), st.data())
def test_lease_work_and_completion_agree(pace, length, hosts, start, data):
    work = own.lease_work(pace, length, hosts)
    assert work == theirs.work_per_lease(pace, length, hosts)
    assert own.rate(pace, hosts) == pace.speed * theirs.relative_speed(pace, hosts)
    if work:
        left = data.draw(st.integers(1, work))
        done = own.completion(start, left, pace, hosts)
        assert done == theirs.completion_time(start, left, pace, hosts)


@st.composite
def groups(draw):
    return {
        "name": f"g{draw(st.integers(0, 10**6))}",
        "count": draw(st.integers(1, 20)),
        "gpu": f"{draw(st.sampled_from([0, 250, 1000, 2000, 8000]))}m",
        "gpu_models": draw(st.none() | st.lists(st.sampled_from(MODELS), min_size=1, unique=True)),
        "cpu": f"{draw(st.integers(0, 30_000))}m",
        "memory": f"{draw(st.integers(0, 30_000))}Mi",
    }


def unique(items):
    return len({item["name"] for item in items}) == len(items)


@given(
    st.lists(groups(), min_size=1, max_size=3).filter(unique),
    st.dictionaries(st.sampled_from(MODELS), st.integers(0, 16)),
)
def test_the_fewest_hosts_agree(made, largest):
    option = Option.model_validate({"groups": made})
    assert own.fewest_hosts(option, largest) == theirs.min_hosts(option, largest)


@given(
    st.lists(groups(), min_size=1, max_size=3).filter(unique),
    st.sets(st.integers(0, 20_000), min_size=1, max_size=4),
    st.sets(st.integers(0, 20_000), min_size=1, max_size=4),
    st.data(),
)
def test_speeds_agree(made, cores, memory, data):
    row = st.lists(st.integers(0, 10**6), min_size=len(memory), max_size=len(memory))
    speeds = data.draw(st.lists(row, min_size=len(cores), max_size=len(cores)))
    matrix = {
        "cores": [f"{c}m" for c in sorted(cores)],
        "memory": [f"{m}Mi" for m in sorted(memory)],
        "speeds": speeds,
    }
    profile = {"stages": [1], "sensitivity": matrix}
    # Two options, so that none is derived from the matrix.
    job = Job.model_validate({"name": "j", "options": [{"groups": made}] * 2, "profile": profile})
    assert speed_alone(job, 0) == speed(job, 0)
