"""`ReplaySpec`: the assumptions of a replay, small enough to send to a worker; and its state."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from heapq import heapify
from itertools import groupby
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from placewright.array_types import Ints
from placewright.instances.errors import InvalidInputError
from placewright.instances.traces.trace import (
    FULL_SPEED,
    SECOND,
    SPEED_BY_OPTION,
    SPREAD_SPEED,
    RunOption,
    Trace,
)
from placewright.rounds.policies.base import (
    CHANGING,
    ElasticPolicy,
    GroupPolicy,
    ListPolicy,
    RoundPolicy,
)
from placewright.rounds.policies.named import QuotaPolicy, TenantPolicy, TunedPolicy, policy_named
from placewright.rounds.replay.book import Charge, Costs, HostLedger, Placer, Places
from placewright.rounds.replay.elastic_decider import ElasticDecider
from placewright.rounds.replay.group_decider import MOST, GroupDecider, GroupSpeeds, start_seconds
from placewright.rounds.replay.list_decider import list_decider
from placewright.rounds.replay.loop import (
    Decider,
    Loop,
    Outage,
    Predictions,
    Trigger,
    check_outages,
    predicted_with_errors,
    random_outages,
)
from placewright.rounds.replay.measures import Result, result_of
from placewright.rounds.replay.policy_lists import (
    Quota,
    TenantList,
    TunedList,
    check_quotas,
    quota_list,
)
from placewright.rounds.replay.round_decider import RoundDecider, SizedRoundDecider


def digest_of(outages: tuple[Outage, ...]) -> str:
    """Return how many outages there are, and of which kind: the start of their sha256."""
    if not outages:
        return "none"
    return f"{len(outages)}, {hashlib.sha256(json.dumps(outages).encode()).hexdigest()[:12]}"


def host_text(hosts: tuple[int, ...], models: tuple[str, ...] = ()) -> str:
    """Write hosts as `8x8, 4xV100:4`: numbers of hosts, and the model and number of their GPUs."""
    runs = groupby(zip(hosts, models or ("",) * len(hosts), strict=True))
    return ", ".join(
        f"{len(list(run))}x{model + ':' if model else ''}{gpus}" for (gpus, model), run in runs
    )


def trace_digest(trace: Trace) -> str:
    """Return the sha256 of a trace: its columns and all names in it."""
    digest = hashlib.sha256()
    columns = {
        "submit_us": trace.submit_us,
        "gpus": trace.gpus,
        "work_us": trace.work_us,
        "predicted_us": trace.predicted_us,
        "deadline_us": trace.deadline_us,
        "value": trace.value,
        "tenant": trace.tenant,
        "model": trace.model,
        **trace.extra,
    }
    for name, rows in columns.items():
        digest.update(name.encode())
        digest.update(rows.tobytes())
    for names in (trace.names, trace.tenants, trace.models):
        digest.update(json.dumps(tuple(names)).encode())
    if trace.options:
        digest.update(json.dumps(trace.options).encode())
    return digest.hexdigest()


# The state of a replay in one file, so that one that was killed goes on where it was.
#
# The file is an npz archive without pickles: the loop's columns, and a JSON text of everything
# else. It is written aside and renamed, so that it is whole or not there.
NAME = "state.npz"
SAVE_EVERY_S = 60.0

_COLUMNS = (
    "left",
    "spare",
    "speed",
    "since",
    "overhead_due",
    "running",
    "other_speed",
    "started",
    "first_start",
    "end",
    "stops",
    "moves",
    "run_us",
    "overhead_us",
    "lost_us",
    "unsaved_us",
    "shared_us",
    "due",
    "option",
    "resizes",
    "on_model",
    "received_us",
    "served_us",
)
_NUMBERS = (
    "now",
    "next_arrival",
    "busy_gpus",
    "busy_gpu_us",
    "alive_us",
    "events",
    "decisions",
    "sample_at",
    "last_decision",
    "pending",
    "stuck",
    "more_overhead_gpu_us",
)


def save(loop: Loop, path: Path, key: str) -> None:
    """Write the state of a loop; `key` says of which replay it is."""
    state = {
        "key": key,
        "numbers": {name: int(getattr(loop, name)) for name in _NUMBERS},
        "place": [[job, place] for job, place in loop.place.items()],
        "together": list(dict.fromkeys(loop.together.values())),
        "alive": list(loop.alive),
        "outages_left": loop.outages_left,
        "repairs": loop.repairs,
        "goes_for": list(loop.goes_for.items()),
        "held_gpu_us": loop.held_gpu_us,
        "more_gpu_us": list(loop.more_gpu_us.items()),
        "decider": loop.decider.state(),
    }
    text = np.frombuffer(json.dumps(state).encode(), dtype=np.uint8)
    columns = {name: getattr(loop, name) for name in _COLUMNS}
    aside = path.with_name(path.name + ".part")
    with aside.open("wb") as file:
        np.savez(file, state=text, samples=np.array(loop.samples, dtype=np.int64), **columns)
    aside.replace(path)


def restore(loop: Loop, path: Path, key: str) -> bool:
    """Bring a new loop into the state of a file; return whether there was one of this replay."""
    try:
        with np.load(path, allow_pickle=False) as found:
            columns = {name: found[name] for name in (*_COLUMNS, "samples")}
            state: dict[str, Any] = json.loads(found["state"].tobytes())
    except (OSError, ValueError, KeyError, BadZipFile):
        return False
    if state.get("key") != key:
        return False
    for name in _COLUMNS:
        setattr(loop, name, columns[name])
    for name, number in state["numbers"].items():
        setattr(loop, name, number)
    loop.samples = [tuple(row) for row in columns["samples"].tolist()]
    loop.alive = dict.fromkeys(state["alive"])
    loop.repairs = [(us, host) for us, host in state["repairs"]]
    for _, host in loop.repairs:
        loop.ledger.close(host)
    loop.outages_left = state["outages_left"]
    for jobs in map(tuple, state["together"]):
        loop.together.update(dict.fromkeys(jobs, jobs))
    loop.goes_for = dict(state["goes_for"])
    loop.held_gpu_us = state["held_gpu_us"]
    loop.more_gpu_us = dict(state["more_gpu_us"])
    for job, place in state["place"]:
        loop.place[job] = tuple((host, gpus) for host, gpus in place)
        loop.gpus[job] = sum(gpus for _, gpus in place)
        if loop.together.get(job, (job,))[0] == job:
            loop.ledger.take(loop.place[job])
    loop.ends = [(int(loop.due[job]), job) for job in loop.place]
    heapify(loop.ends)
    loop.decider.restore(state["decider"])
    return True


def saver(path: Path, key: str, every_s: float = SAVE_EVERY_S) -> Callable[[Loop], None]:
    """Return what saves a loop every so many seconds, when its decider can be saved."""
    due = time.monotonic() + every_s

    def after_event(loop: Loop) -> None:
        nonlocal due
        if time.monotonic() >= due and loop.decider.can_be_saved:
            save(loop, path, key)
            due = time.monotonic() + every_s

    return after_event


LONGEST_US = 2**60
"""Until when jobs may come: the clock, beside all that they run, then has 64 bits."""

MAX_FAILURES = 1_000_000
"""As many may be drawn."""


@dataclass(frozen=True, slots=True)
class ReplaySpec:
    """Who decides, on which hosts, when, and at which costs.

    - `policy`: name of a policy.
    - `hosts`, `gpu_models`: GPUs of each host, and their model where hosts have one.
    - `placer`, `places`: see `HostLedger`, and `PreemptiveList` or `ElasticDecider`.
    - `every_s`, `at_most_every`, `leases`: see `Trigger`; None: after every event.
    - `start_s`, `stop_s`, `move_s`, `checkpoint_s`, `charge`: see `Costs`; `start_table` names a
      table of starts by model and GPUs in place of `start_s`, and `start_by_gpus` has pairs of
      GPUs and seconds, ascending.
    - `outages`: hosts that are away.
    - `mtbf_s`, `repair_s`: means of the exponential times between failures of a host and of its
      repair, drawn by `seed`; None: no failures beside `outages`.
    - `quotas`: what tenants own, of the policies that ask for it.
    - `search_s`, `gap`: limits of the search of each round, of a policy that rounds decide: work in
      units of seconds, and the gap at which it stops.
    - `load`: arrivals are compressed by this factor; 2 doubles the load.
    - `seed`: 0 plays the trace as it is. Any other deals its jobs anew to the times of arrival, so
      that replays of several seeds are samples of one workload.
    - `predictions`: of running times: those of the trace, or with the errors of Helios's predictor
      by `seed`.
    - `warm_up_s`, `until_s`: the measures of jobs leave out those submitted before the one, or at
      the other or later.
    """

    policy: str
    hosts: tuple[int, ...]
    gpu_models: tuple[str, ...] = ()
    placer: Placer = "first-fit"
    places: Places = "kept"
    every_s: int | None = None
    at_most_every: bool = False
    leases: bool = False
    start_s: float = 0
    start_table: str | None = None
    start_by_gpus: tuple[tuple[int, float], ...] = ()
    stop_s: float = 0
    move_s: float = 0
    checkpoint_s: float | None = None
    charge: Charge = "start"
    quotas: tuple[Quota, ...] = ()
    search_s: float = 2.0
    gap: float = 0.0
    load: float = 1.0
    seed: int = 0
    outages: tuple[Outage, ...] = ()
    mtbf_s: float | None = None
    repair_s: float = 3600
    predictions: Predictions = "trace"
    warm_up_s: float = 0
    until_s: float | None = None

    def card(self) -> dict[str, Any]:
        """Return the assumptions as they are compared between replays."""
        card = asdict(self)
        card["hosts"] = host_text(self.hosts, card.pop("gpu_models"))
        if card.pop("start_by_gpus"):
            card["start_s"] = ", ".join(f"{gpus}:{s:g}" for gpus, s in self.start_by_gpus)
        card["outages"] = digest_of(self.outages)
        card["quotas"] = ", ".join(map(str, self.quotas)) or "none"
        return card


def check_replay(trace: Trace, spec: ReplaySpec) -> None:
    """Check that assumptions fit a trace and each other.

    Raises InvalidInputError if a job does not fit even where all GPUs are free, the policy needs a
    column that there is not, an outage cannot be, failures are too many, hosts fail that are not
    told apart, costs are charged at events that are paid once, or leave no time for work, a policy
    cannot decide between the boundaries of leases, or quotas cannot be.
    """
    policy = policy_named(spec.policy)
    ledger = HostLedger(spec.hosts, spec.placer, spec.gpu_models)
    if isinstance(policy, ElasticPolicy) and not policy.sizes:
        trace = as_asked(trace, ledger.models)
    for column in sorted(policy.sees - CHANGING):
        if not trace.has(column):
            raise InvalidInputError(
                f"expected a policy that needs no column {column}, which the trace does not have",
                path=("policy",),
                value=spec.policy,
            )
    if spec.placer == "counting" and (spec.outages or spec.mtbf_s is not None):
        raise InvalidInputError(
            "expected first-fit or best-fit where hosts fail",
            path=("placer",),
            value=spec.placer,
        )
    if isinstance(policy, ElasticPolicy):
        if policy.one_model and len(ledger.models) > 1:
            raise InvalidInputError(
                "expected a policy that chooses among GPU models, where there are several",
                path=("policy",),
                value=spec.policy,
            )
        if policy.worth is not None and spec.placer == "counting":
            raise InvalidInputError(
                "expected first-fit or best-fit where rounds decide", ("placer",), spec.placer
            )
        _check_elastic(trace, spec, ledger)
    else:
        _check_sizes(trace, spec, ledger)
    if int(trace.submit_us.max(initial=0)) / spec.load > LONGEST_US:
        raise InvalidInputError(
            f"expected a load at which all jobs come within {LONGEST_US / SECOND:.0f} s",
            path=("load",),
            value=spec.load,
        )
    check_outages(spec.outages, len(spec.hosts))
    if spec.mtbf_s is not None and len(spec.hosts) * _last_us(trace) > (
        MAX_FAILURES * SECOND * (spec.mtbf_s + spec.repair_s)
    ):
        raise InvalidInputError(
            f"expected a longer time between failures; these are more than {MAX_FAILURES:,}",
            path=("mtbf_s",),
            value=spec.mtbf_s,
        )
    if spec.leases and not isinstance(policy, ListPolicy | TenantPolicy):
        raise InvalidInputError(
            "expected a list policy where there are leases", path=("policy",), value=spec.policy
        )
    if isinstance(policy, QuotaPolicy):
        check_quotas(spec.quotas, trace.tenants, spec.hosts, spec.placer)
    if spec.charge == "event" and (spec.stop_s or spec.move_s):
        raise InvalidInputError(
            "expected charge start where a stop or a move costs something",
            path=("charge",),
            value=spec.charge,
        )
    if spec.charge == "event" and spec.every_s is not None and not spec.at_most_every:
        # A round in which all members of a group pay for a start has to leave time for work.
        together = MOST if isinstance(policy, GroupPolicy) else 1
        least = together * int(_costs(trace, spec).column("start_us", len(trace)).max(initial=0))
        if SECOND * spec.every_s <= least:
            raise InvalidInputError(
                f"expected rounds longer than {least / SECOND:g} s: starts at every event take it",
                path=("every_s",),
                value=spec.every_s,
            )


def _check_sizes(trace: Trace, spec: ReplaySpec, ledger: HostLedger) -> None:
    """Check that each job fits with the GPUs that it asks, and has a speed on each GPU model."""
    if len(ledger.models) > 1 and not isinstance(policy_named(spec.policy), ListPolicy):
        raise InvalidInputError(
            "expected a list policy, or one that chooses sizes, where GPUs are of several models",
            path=("policy",),
            value=spec.policy,
        )
    played = with_options(trace, ledger.models)
    for gpus in np.unique(trace.gpus).tolist():
        jobs = trace.gpus == gpus
        places = [ledger.find_of(model, gpus) for model in range(len(ledger.models))]
        if not any(places):
            raise InvalidInputError(
                f"expected a number of GPUs that fits on hosts {_hosts(spec)}",
                path=("trace", trace.names[int(jobs.argmax())], "gpus"),
                value=gpus,
            )
        for model in ledger.models if played.options else ():
            options = [o[:2] == (gpus, model) for o in played.options]
            speeds = played.extra[SPEED_BY_OPTION][jobs][:, options]
            slow = (speeds.max(axis=1, initial=0) == 0).nonzero()[0]
            if len(slow):
                raise InvalidInputError(
                    f"expected a speed with {gpus} GPUs{f' {model}' if model else ''}, which the "
                    "policy may give it",
                    path=("trace", trace.names[int(jobs.nonzero()[0][slow[0]])]),
                    show_value=False,
                )


def _check_elastic(trace: Trace, spec: ReplaySpec, ledger: HostLedger) -> None:
    """Check that each job has an option that fits, and that costs are those of a start."""
    if spec.charge == "event":
        raise InvalidInputError(
            "expected charge start where jobs change their size", path=("charge",), value="event"
        )
    played = with_options(trace, ledger.models)
    fits = [
        ledger.find_of(ledger.models.index(option.gpu_model), option.gpus) is not None
        for option in played.options
    ]
    speeds = played.extra[SPEED_BY_OPTION][:, fits]
    lost = (speeds.max(axis=1, initial=0) == 0).nonzero()[0]
    if len(lost):
        raise InvalidInputError(
            f"expected a job with an option that fits on hosts {_hosts(spec)}",
            path=("trace", trace.names[int(lost[0])]),
            show_value=False,
        )


def _hosts(spec: ReplaySpec) -> str:
    return host_text(spec.hosts, spec.gpu_models)


def with_options(trace: Trace, models: tuple[str, ...]) -> Trace:
    """Return a trace whose options are of these GPU models.

    An option of any model becomes one of each; those of other models are left out.
    """
    if not trace.options:
        return trace
    rows = [
        (number, option._replace(gpu_model=model))
        for number, option in enumerate(trace.options)
        for model in models
        if option.gpu_model in ("", model)
    ]
    numbers = [number for number, _ in rows]
    tables = {
        name: trace.extra[name][:, numbers]
        for name in (SPEED_BY_OPTION, SPREAD_SPEED)
        if name in trace.extra
    }
    return replace(trace, options=tuple(o for _, o in rows), extra={**trace.extra, **tables})


def as_asked(trace: Trace, models: tuple[str, ...]) -> Trace:
    """Return a trace whose jobs run with the GPUs that they ask; without options at speed 1."""
    if not trace.options:
        sizes = [(gpus, model) for gpus in np.unique(trace.gpus).tolist() for model in models]
        speeds = np.full((len(trace), len(sizes)), FULL_SPEED)
        trace = replace(
            trace,
            options=tuple(RunOption(*size) for size in sizes),
            extra={**trace.extra, SPEED_BY_OPTION: speeds},
        )
    asked = trace.gpus[:, None] == np.array([option.gpus for option in trace.options])
    tables = {
        name: np.where(asked, trace.extra[name], 0)
        for name in (SPEED_BY_OPTION, SPREAD_SPEED)
        if name in trace.extra
    }
    return replace(trace, extra={**trace.extra, **tables})


def trace_played(trace: Trace, spec: ReplaySpec) -> Trace:
    """Return a trace with the arrivals, predictions and options that a replay assumes."""
    trace = with_options(trace, tuple(dict.fromkeys(spec.gpu_models)) or ("",))
    if spec.predictions == "helios":
        trace = replace(trace, predicted_us=predicted_with_errors(trace.work_us, spec.seed))
    if spec.load != 1:
        trace = trace.arriving(np.rint(trace.submit_us / spec.load).astype(np.int64))
    if spec.seed:
        order = np.random.default_rng(spec.seed).permutation(len(trace))
        trace = trace.arriving(trace.submit_us, order)
    return trace


def loop_of(trace: Trace, spec: ReplaySpec) -> Loop:
    """Return the loop of a replay, at its beginning; raise as `check_replay` does."""
    check_replay(trace, spec)
    trace = trace_played(trace, spec)
    ledger = HostLedger(spec.hosts, spec.placer, spec.gpu_models)
    policy = policy_named(spec.policy)
    if isinstance(policy, ElasticPolicy) and not policy.sizes:
        trace = as_asked(trace, ledger.models)
    return Loop(
        trace,
        ledger,
        _decider(trace, spec),
        costs=_costs(trace, spec),
        trigger=Trigger(
            None if spec.every_s is None else SECOND * spec.every_s,
            at_most=spec.at_most_every,
            leases=spec.leases,
        ),
        outages=(*spec.outages, *_failures(trace, spec)),
    )


def play(
    trace: Trace,
    spec: ReplaySpec,
    folder: Path | None = None,
    *,
    save_every_s: float = SAVE_EVERY_S,
    watch: Callable[[Loop], None] | None = None,
) -> Result:
    """Play a trace to its end, and check the result.

    `trace`, `spec`: what is played, and how. `folder`: where the state is saved; a replay that is
    there already goes on. `save_every_s`: seconds between two savings. `watch`: called after each
    event.
    """
    loop = loop_of(trace, spec)
    hooks = [] if watch is None else [watch]
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        key = json.dumps([trace_digest(trace), spec.card()], sort_keys=True)
        restore(loop, folder / NAME, key)
        hooks.append(saver(folder / NAME, key, save_every_s))

    def after_event(loop: Loop) -> None:
        for hook in hooks:
            hook(loop)

    try:
        loop.run(after_event=after_event if hooks else None)
    finally:
        loop.decider.close()
    # Options that a policy does not use, or that are made for it, make no other trace.
    return replace(result_of(loop), trace=trace_played(trace, spec))


def _decider(trace: Trace, spec: ReplaySpec) -> Decider:
    policy = policy_named(spec.policy)
    if isinstance(policy, RoundPolicy):
        tenants = len(trace.tenants) if "tenant" in policy.sees else 0
        return RoundDecider(policy, spec.hosts, spec.places, spec.search_s, spec.gap, tenants)
    if isinstance(policy, TenantPolicy):
        return TenantList(policy, trace)
    if isinstance(policy, TunedPolicy):
        return TunedList(policy, trace, spec.places)
    if isinstance(policy, QuotaPolicy):
        return quota_list(policy, trace, spec.hosts, spec.quotas)
    if isinstance(policy, ElasticPolicy) and policy.worth is not None:
        return SizedRoundDecider(policy, policy.worth, spec.hosts, spec.search_s, spec.gap)
    if isinstance(policy, ElasticPolicy):
        return ElasticDecider(policy, spec.places)
    if isinstance(policy, GroupPolicy):
        return GroupDecider(policy, GroupSpeeds(trace), spec.places)
    return list_decider(policy, len(trace), spec.places)


def _last_us(trace: Trace) -> int:
    """Return until when hosts may fail: four times the trace and its longest job."""
    return 4 * int(trace.submit_us.max(initial=0) + trace.work_us.max(initial=0))


def _failures(trace: Trace, spec: ReplaySpec) -> tuple[Outage, ...]:
    if spec.mtbf_s is None:
        return ()
    return random_outages(
        len(spec.hosts),
        _last_us(trace),
        mean_up_s=spec.mtbf_s,
        mean_down_s=spec.repair_s,
        seed=spec.seed,
    )


def _costs(trace: Trace, spec: ReplaySpec) -> Costs:
    start: Ints | int = round(SECOND * spec.start_s)
    if spec.start_table is not None:
        if spec.start_table != "muri":
            raise InvalidInputError("expected muri", path=("start_table",), value=spec.start_table)
        start = SECOND * start_seconds(trace)
    return Costs(
        start_us=start,
        by_gpus_us=tuple((gpus, round(SECOND * s)) for gpus, s in spec.start_by_gpus),
        stop_us=round(SECOND * spec.stop_s),
        move_us=round(SECOND * spec.move_s),
        checkpoint_us=None if spec.checkpoint_s is None else round(SECOND * spec.checkpoint_s),
        charge=spec.charge,
    )
