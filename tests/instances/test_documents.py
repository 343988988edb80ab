"""The documents as objects: defaults, quantities, limits of names, what they compute."""

import pickle

import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples
from placewright.instances.derived.hardware import Hardware, hardware
from placewright.instances.documents.base import MAX_AMOUNT
from placewright.instances.documents.cluster import ClusterDocument, HostEntry
from placewright.instances.documents.job import Job, Running
from placewright.instances.documents.option import Option, TaskGroup
from placewright.instances.documents.plan import Decision, Plan, Task
from placewright.instances.documents.policy import Policy, Tenant
from placewright.instances.documents.quantities import memory_text, whole_units
from placewright.instances.documents.round import Round
from placewright.instances.errors import (
    InvalidInputError,
    path_text,
    value_text,
)
from placewright.topology import CATALOGUE
from placewright.topology.mig import product_of

HOSTS = ({"name": "h", "gpus": 8, "gpu_model": "A100"},)


@pytest.mark.parametrize(
    ("written", "thousandths"),
    [
        (0, 0),
        (8, 8000),
        ("8", 8000),
        (0.25, 250),
        ("0.25", 250),
        (8.0, 8000),
        ("500m", 500),
        ("0m", 0),
        ("0008m", 8),
        (1e-3, 1),
    ],
)
def test_numbers_are_whole_gpus_and_cores_quoted_or_not(written, thousandths):
    group = TaskGroup(gpu=written, cpu=written)
    assert (group.gpu, group.cpu) == (thousandths, thousandths)
    tenant = Tenant(name="t", quota={"gpu": written, "cpu": written})
    assert tenant.quota == {"gpu": thousandths, "cpu": thousandths}


@pytest.mark.parametrize(
    ("written", "mib"),
    [
        (0, 0),
        ("0", 0),
        ("4Gi", 4096),
        ("1.5Gi", 1536),
        ("512Mi", 512),
        ("2048Ki", 2),
        ("1Ti", 2**20),
        ("1Pi", 2**30),
    ],
)
def test_memory_is_read_by_its_suffix(written, mib):
    assert TaskGroup(gpu=0, memory=written).memory == mib


@given(st.integers(0, 2**40), st.integers(0, 2**40))
@settings(max_examples=examples(day=25, nightly=100))
def test_quantities_are_read_as_they_were_written(thousandths, mib):
    amounts = {"gpu": thousandths, "cpu": thousandths, "memory": mib % MAX_AMOUNT, "nic": 3}
    texts = {
        **dict.fromkeys(("gpu", "cpu"), whole_units(thousandths % MAX_AMOUNT)),
        "memory": memory_text(mib % MAX_AMOUNT),
        "nic": 3,
    }
    tenant = Tenant(name="t", quota=texts)
    assert tenant.quota == amounts | dict.fromkeys(("gpu", "cpu"), thousandths % MAX_AMOUNT)
    assert tenant.model_dump()["quota"] == texts
    assert Tenant.model_validate_json(tenant.model_dump_json()) == tenant


@given(st.integers(0, MAX_AMOUNT // 1024))
@settings(max_examples=examples(day=15, nightly=50))
def test_spellings_of_the_same_memory_agree(gib):
    assert HostEntry(name="h", memory=f"{gib}Gi") == HostEntry(name="h", memory=f"{gib * 1024}Mi")


@given(st.integers(0, 10_000))
@settings(max_examples=examples(day=25, nightly=100))
def test_gpus_are_a_share_of_one_or_whole_ones(gpu):
    if gpu <= 1000 or gpu % 1000 == 0:
        assert TaskGroup(gpu=f"{gpu}m").gpu == gpu
    else:
        with pytest.raises(InvalidInputError, match=r"^gpu: "):
            TaskGroup(gpu=f"{gpu}m")


def test_documents_do_not_change():
    group = TaskGroup(gpu=1)
    with pytest.raises(pydantic.ValidationError):
        group.gpu = 2000
    assert TaskGroup(gpu=0.001).resources is not TaskGroup(gpu=0.001).resources


def test_an_option_is_worth_its_value_or_its_gpus_times_the_weight():
    groups = (TaskGroup(gpu=2, count=3), TaskGroup(gpu=0.5, count=2))
    job = Job(name="j", weight=4, options=(Option(groups=groups), Option(groups=groups, value=7)))
    assert groups[0].milli_gpu == 6000
    assert job.options[0].milli_gpu == 7000
    assert job.value_of(0) == 28_000
    assert job.value_of(1) == 7


def test_spread_weights_default_to_the_levels_that_exist():
    round_ = Round(cluster=ClusterDocument(hosts=HOSTS))
    assert round_.spread_weights() == {}
    levels = Round(cluster=ClusterDocument(hosts=HOSTS, levels=("zone", "rack")))
    assert levels.spread_weights() == {"rack": 1}
    own = levels.model_copy(update={"policy": Policy(spread_weights={"zone": 9})})
    assert own.spread_weights() == {"zone": 9}
    none = levels.model_copy(update={"policy": Policy(spread_weights={})})
    assert none.spread_weights() == {}


def test_a_policy_has_terms_by_default():
    assert Policy().terms == ("value", "disruption", "spread", "opened")


def test_hardware_is_what_is_given_and_else_what_the_host_model_has():
    model = CATALOGUE["dgx-h100"]
    entry = HostEntry(name="h", model="dgx-h100", cpu=1, resources={"nic": 8})
    assert hardware(entry) == Hardware(
        model.gpus,
        model.gpu_model,
        {"cpu": 1000, "memory": model.memory_mib, "nic": 8},
        model.gpu_memory_mib,
        product_of(model.gpu_model, model.gpu_memory_mib),
    )
    assert hardware(HostEntry(name="h", model="dgx-h100", gpus=0)).gpu_model is None
    bare = HostEntry(name="h", gpus=4, gpu_model="T4")
    assert hardware(bare) == Hardware(4, "T4", {"cpu": 0, "memory": 0})


def test_an_error_shows_what_it_knows_in_one_line():
    full = InvalidInputError(
        "expected\nless", file="f.json", path=("jobs", 1, "name"), value="x\ny"
    )
    assert str(full) == "f.json: jobs[1].name: 'x\\ny': expected less"
    assert str(InvalidInputError("expected more", value=3)) == "3: expected more"
    assert str(InvalidInputError("expected more", show_value=False)) == "expected more"
    assert full.inside("other.json").file == "f.json"
    assert InvalidInputError("e").inside("other.json").file == "other.json"
    assert full.under("a", 0).path == ("a", 0, "jobs", 1, "name")
    assert full.under("a").value == full.value


def test_paths_and_values_are_shown_in_few_plain_characters():
    assert path_text(("a", 1, 2, "b-c_d", "e.f", "")) == "a[1][2].b-c_d['e.f']['']"
    assert path_text(()) == ""
    assert len(path_text(("k" * 1000,))) < 70
    assert value_text("x" * 100) == f"'{'x' * 56}..."
    assert value_text(10**5000) == "<int>"
    nested: list[object] = []
    for _ in range(100_000):
        nested = [nested]
    assert value_text(nested) == "<list>"


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (Task, {"group": 0, "index": 1, "host": "h", "gpus": (2,)}),
        (TaskGroup, {"gpu": 1}),
        (Running, {"tasks": (Task(group=0, index=0, host="h", gpus=(0,)),), "pinned": True}),
        (Decision, {"job": "j", "decision": "wait", "reason": "not_chosen"}),
        (Plan, {"round": None, "decisions": ()}),
    ],
)
def test_a_document_made_unchecked_is_as_one_that_was_checked(kind, values):
    checked = kind(**values)
    made = kind.model_construct(**{name: getattr(checked, name) for name in values})
    assert made == checked
    assert made.model_fields_set == checked.model_fields_set
    assert made.model_dump_json() == checked.model_dump_json()
    assert made.model_copy(update={name: getattr(made, name) for name in values}) == checked
    assert pickle.loads(pickle.dumps(made)) == checked


def test_made_documents_share_no_default_that_could_change():
    one, other = (TaskGroup.model_construct(gpu=0) for _ in range(2))
    assert one.resources is not other.resources
