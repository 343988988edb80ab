"""The plan sections of data: `reads`, `replicas` and `flows`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from placewright.instances.documents.base import Document, Many, Moment, Name
from placewright.instances.documents.geo import Gib


class RemoteRead(Document):
    """A dataset that a job reads from a region other than its own."""

    dataset: Name
    source: Name


class Reader(Document):
    """A running job with remote reads; its other reads are local."""

    job: Name
    reads: Many[RemoteRead] = Field(min_length=1)


class WaitsForData(Document):
    """A job that waits for data: all of it is in `region` at `ready`, which has the GPUs for it."""

    job: Name
    region: Name
    ready: Moment


class ReadsSection(Document):
    """What the policy `geo` adds to a plan."""

    kind: Literal["reads"] = "reads"
    readers: Many[Reader] = ()
    waiting: Many[WaitsForData] = ()


class Create(Document):
    """A new replica: complete at `ready`, its storage is taken from its first flow on."""

    dataset: Name
    region: Name
    ready: Moment


class Drop(Document):
    """A replica that is deleted at `at`."""

    dataset: Name
    region: Name
    at: Moment


class Home(Document):
    """The region and GPU model of a job once all transfers of the plan are done."""

    job: Name
    region: Name
    gpu_model: Name


class ReplicaSection(Document):
    """New replicas, replicas deleted, and where jobs are to run then.

    A job without a home cannot run anywhere.
    """

    kind: Literal["replicas"] = "replicas"
    creates: Many[Create] = ()
    drops: Many[Drop] = ()
    homes: Many[Home] = ()


class Flow(Document):
    """A part of a copy, at an even rate from `start` to `end` over each link of `path`.

    The first region of the path holds the dataset all that time, the last one gets a replica: the
    flows of a dataset to a region add up to its size.
    """

    dataset: Name
    path: Many[Name] = Field(min_length=2)
    gib: Gib
    start: Moment
    end: Moment


class FlowSection(Document):
    """The transfers of a plan, in the order of their start."""

    kind: Literal["flows"] = "flows"
    flows: Many[Flow]
