"""The service itself: settings, bodies, two lanes, metrics, the extender, and the last round."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request, Response
from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.requests import ClientDisconnect

from placewright.explain.places import fragmentation_of, free_and_total, is_measured
from placewright.instances.derived.doubts import doubts_of, so_far, why_waits
from placewright.instances.derived.source_words import all_left_out
from placewright.instances.documents.job import Job
from placewright.instances.documents.plan import Decision, DecisionKind, Plan
from placewright.instances.documents.round import Round
from placewright.instances.documents.source_keys import (
    KUBERNETES_OWNER,
    KUBERNETES_POD_UIDS,
    KUBERNETES_UID,
)
from placewright.instances.errors import InvalidInputError, printable
from placewright.live.serve.extender import Args, Extender, args_of, refusal
from placewright.live.serve.lane import (
    OK,
    Answer,
    BusyError,
    ErrorDocument,
    GoneError,
    JobPlaces,
    Lane,
    Question,
    Snapshot,
    TaskPlace,
    failed,
)
from placewright.report.facts.jobs import milli_gpu_of
from placewright.report.page import render_report
from placewright.rounds.state.changes import apply_plan
from placewright.topology.units import WHOLE_GPU

MIB = 1024**2


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Limits and names of the service.

    - `token`: whoever asks has to send it.
    - `seconds`: most of a search, whatever a round says.
    - `waiting`: most requests that wait for another one to end.
    - `body_mib`: most of a request, in MiB.
    - `names`: host names, beside `localhost` and addresses, by which the service may be called.
    - `mutual_tls`: every connection has shown a client certificate.
    - `round_file`, `plan_file`: the round and plan to show, read again whenever they change; None:
      those solved last.
    - `policy`: fields of a policy that take the place of those of rounds that are sent.
    """

    token: str
    seconds: float = 60.0
    waiting: int = 4
    body_mib: int = 64
    names: frozenset[str] = frozenset()
    mutual_tls: bool = False
    round_file: str | None = None
    plan_file: str | None = None
    policy: Mapping[str, Any] = field(default_factory=dict)


SECONDS, FIRST_SECONDS, MIB_PER_SECOND = 60.0, 5.0, 0.25
"""In which all of a body has to arrive; and at each moment what came has to be that fast, at most
so many seconds late. What is slower holds its caller's connection, and nothing that others need."""

DRAINED_MIB = 8
"""Of a body that nobody wants, what is read all the same: who still sends may not listen."""

_CHUNK_SECONDS = 5.0
_JSON = "application/json"


class RefusedError(Exception):
    """A request that is refused before all of it is read."""

    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(message)
        self.status = status


class Bodies:
    """Reads bodies.

    `mib`: most of one, in MiB. `reading_mib`: most of all that are read at once.
    """

    def __init__(self, mib: int, reading_mib: int) -> None:
        self._mib, self._most = mib, max(mib, reading_mib) * MIB
        self._held = 0

    async def read(self, request: Request) -> bytes:
        """Return the body of a request.

        Raises RefusedError if it is not declared to be JSON, too large, or does not arrive in time;
        or others are read that fill the memory for it. Raises GoneError if the caller is gone.
        """
        self._check_head(request)
        body = bytearray()
        began = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout_at(began + FIRST_SECONDS) as limit:
                async for chunk in request.stream():
                    body += chunk
                    self._held += len(chunk)
                    if len(body) > self._mib * MIB:
                        raise self._too_large()
                    if self._held > self._most:
                        raise RefusedError(
                            HTTPStatus.SERVICE_UNAVAILABLE, "busy with other requests; try again"
                        )
                    late = FIRST_SECONDS + len(body) / MIB / MIB_PER_SECOND
                    limit.reschedule(began + min(SECONDS, late))
        except TimeoutError:
            raise RefusedError(
                HTTPStatus.REQUEST_TIMEOUT,
                f"too slow; expected {MIB_PER_SECOND:g} MiB/s, and all of it within {SECONDS:g} s",
            ) from None
        except ClientDisconnect:
            raise GoneError from None
        finally:
            self._held -= len(body)
        return bytes(body)

    def _check_head(self, request: Request) -> None:
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != _JSON:
            raise RefusedError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"expected Content-Type: {_JSON}")
        said = request.headers.get("content-length", "0")
        is_number = said.isascii() and said.isdigit() and len(said) <= 18
        if not is_number or int(said) > self._mib * MIB:
            raise self._too_large()

    def _too_large(self) -> RefusedError:
        return RefusedError(
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"too large; expected at most {self._mib} MiB"
        )


async def drain(request: Request) -> None:
    """Read what a caller still sends, for a while, so that it hears the answer."""
    read = 0
    try:
        async with asyncio.timeout(_CHUNK_SECONDS):
            async for chunk in request.stream():
                read += len(chunk)
                if read > DRAINED_MIB * MIB:
                    return
    except (TimeoutError, ClientDisconnect, RuntimeError):  # RuntimeError: it was read before
        return


def until_gone(request: Request) -> Callable[[], Awaitable[None]]:
    """Return what returns once the caller of a request that was read is gone."""

    async def gone() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    return gone


BUCKETS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
"""Seconds of a round."""


class Metrics:
    """Counters of this service, and gauges of the last round."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._rounds = Counter(
            "placewright_rounds", "Rounds solved and shown.", registry=self._registry
        )
        self._degraded = Counter(
            "placewright_degraded_rounds",
            "Rounds of which something went wrong on the way.",
            registry=self._registry,
        )
        self._seconds = Histogram(
            "placewright_round_seconds",
            "Wall-clock seconds of a round.",
            buckets=BUCKETS,
            registry=self._registry,
        )
        self._answers = Counter(
            "placewright_answers",
            "Answers by what was asked and status.",
            ("asked", "status"),
            registry=self._registry,
        )
        self._last = _LastRound()
        self._registry.register(self._last)

    def answered(self, asked: str, status: int) -> None:
        """Count an answer."""
        self._answers.labels(asked, str(status)).inc()

    def show(self, snapshot: Snapshot) -> None:
        """Count a round, and show it from now on."""
        self._rounds.inc()
        self._seconds.observe(snapshot.seconds)
        if snapshot.degraded:
            self._degraded.inc()
        self._last.snapshot, self._last.since = snapshot, time.time()

    def text(self) -> bytes:
        """Return all of them as Prometheus reads them."""
        return generate_latest(self._registry)


class _LastRound(Collector):
    """Gauges of the last round, without the labels of earlier ones."""

    def __init__(self) -> None:
        self.snapshot: Snapshot | None = None
        self.since = 0.0

    def collect(self) -> Iterator[Metric]:
        last = self.snapshot
        if last is None:
            return
        gaps = {term: gap for term, gap in last.gaps.items() if gap is not None}
        yield _gauge("term_gap_ratio", "Relative gap to the bound, by term.", "term", gaps)
        waiting = {reason: milli / WHOLE_GPU for reason, milli in last.waiting.items()}
        yield _gauge("waiting_gpus", "GPUs that waiting jobs ask for.", "reason", waiting)
        yield _gauge("free_domains", "Domains all of whose GPUs are free.", "level", last.free)
        yield GaugeMetricFamily(
            "placewright_shown_timestamp_seconds", "Since when this round is shown.", self.since
        )
        yield GaugeMetricFamily(
            "placewright_degraded", "Whether the last round is degraded.", bool(last.degraded)
        )
        if last.stranded is not None:
            yield GaugeMetricFamily(
                "placewright_stranded_gpus",
                "Free GPUs that a task of the mix cannot use, on average.",
                last.stranded / WHOLE_GPU,
            )


def _gauge(
    name: str, text: str, label: str, values: Mapping[str, float] | Mapping[str, int]
) -> GaugeMetricFamily:
    made = GaugeMetricFamily(f"placewright_{name}", text, labels=(label,))
    for key, value in values.items():
        made.add_metric((key,), value)
    return made


MAX_REASON = 300
"""Characters of a reason, which stands in the condition of a pod."""

NO_REASON = "no_reason"
_STOPPED = "preempted"


def snapshot_of(round_: Round, plan: Plan) -> Snapshot:
    """Return what the service shows of a valid plan."""
    jobs = {job.name: job for job in round_.jobs}
    asked = milli_gpu_of(jobs, plan)
    waiting: defaultdict[str, int] = defaultdict(int)
    for decision in plan.decisions:
        if decision.decision is DecisionKind.WAIT:
            reason = NO_REASON if decision.reason is None else decision.reason.value
            waiting[reason] += asked[decision.job]
    stranded = None
    if is_measured(round_):
        valid, kept = round_.valid_part(), plan.without_jobs(round_.invalid)
        stranded = fragmentation_of(apply_plan(valid, kept, restart_s={})).stranded
    certificate = plan.certificate
    run = None if certificate is None else certificate.run
    return Snapshot(
        name=round_.name,
        seconds=0.0 if run is None else run.wall_s,
        degraded=() if certificate is None else certificate.degraded,
        gaps={} if certificate is None else {term.name: term.gap for term in certificate.terms},
        waiting=dict(waiting),
        free=free_and_total(round_, plan)[0],
        stranded=stranded,
        page=render_report(round_, plan),
        jobs={one.job: _places(round_, jobs[one.job], one) for one in plan.decisions},
        left_out={one.name: one.why[:MAX_REASON] for one in all_left_out(round_)},
    )


def _places(round_: Round, job: Job, decision: Decision) -> JobPlaces:
    notes = job.annotations
    owners = tuple(
        uid for key in (KUBERNETES_UID, f"{KUBERNETES_OWNER}uid") if (uid := notes.get(key))
    )
    most = max(len(option.groups) for option in job.options)
    pods = [notes.get(f"{KUBERNETES_POD_UIDS}{g}", "").split(",") for g in range(most)]
    if decision.option is not None and decision.tasks:
        groups = job.options[decision.option].groups
        tasks = tuple(
            TaskPlace(
                task.host,
                groups[task.group].gpu,
                pods[task.group][task.index] if task.index < len(pods[task.group]) else "",
            )
            for task in decision.tasks
        )
        doubts = doubts_of(round_, job)
        return JobPlaces(tasks, so_far(doubts)[:MAX_REASON], owners)
    known = (uid for uids in pods for uid in uids if uid)
    return JobPlaces(why=_why(round_, job, decision), owners=(*owners, *known))


def _why(round_: Round, job: Job, decision: Decision) -> str:
    if decision.decision is DecisionKind.PREEMPT:
        return _STOPPED
    if decision.reason is None:
        return NO_REASON
    text = why_waits(round_, job, decision)
    return printable(f"{decision.reason.value}: {text}")[:MAX_REASON]


CLOSED = 499
"""As nginx says it: the caller left before there was an answer."""

EXTENDER_MIB = 4
READING_MIB, EXTENDING_MIB = 512, 64
"""Most of all requests whose bodies are read at once, and of those of the extender."""

FILE_SECONDS = 1.0
"""How often the files of round and plan are looked at."""

log = logging.getLogger("placewright.serve")


class Service:
    """What the paths share.

    Searches take as long as they are allowed to; checks have a lane of their own, so that they do
    not wait for these.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings, self.metrics, self.extender = settings, Metrics(), Extender()
        self.last: Snapshot | None = None
        self._bodies = Bodies(settings.body_mib, READING_MIB)
        self._extending = Bodies(EXTENDER_MIB, EXTENDING_MIB)
        self._searches = Lane(settings.waiting, self._show)
        self._checks = Lane(settings.waiting, self._show)

    def _show(self, snapshot: Snapshot) -> None:
        self.last = snapshot
        self.metrics.show(snapshot)
        self.extender.show(snapshot.jobs, snapshot.left_out)

    @asynccontextmanager
    async def running(self, _app: FastAPI) -> AsyncIterator[None]:
        """Have the processes, as long as the service runs, and follow the files."""
        lanes = self._searches, self._checks
        for lane in lanes:
            lane.start()
        following = asyncio.create_task(self._follow_files())
        try:
            yield
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
            await asyncio.gather(*(lane.close() for lane in lanes))

    async def answer(
        self, request: Request, verb: str, *, lenient: bool = False, show: bool = False
    ) -> Response:
        """Answer a request with a document; `show` its round from now on, unless files do."""
        lane = self._searches if verb in ("solve", "explain") else self._checks
        publish = show and self.settings.plan_file is None
        response = await self._answer(lane, request, verb, lenient=lenient, publish=publish)
        self.metrics.answered(verb, response.status_code)
        return response

    async def _answer(
        self, lane: Lane, request: Request, verb: str, *, lenient: bool, publish: bool
    ) -> Response:
        try:
            body = await self._bodies.read(request)
            async with lane.place():
                given = self.settings.policy
                question = Question(verb, body, self.settings.seconds, lenient, publish, given)
                answer = await lane.ask(question, until_gone(request))
        except BusyError as error:
            return as_response(failed(str(error), HTTPStatus.SERVICE_UNAVAILABLE), error.seconds)
        except RefusedError as error:
            await drain(request)
            return as_response(failed(str(error), error.status))
        except GoneError:
            return Response(status_code=CLOSED)
        return as_response(answer)

    async def extend(self, request: Request, verb: str) -> Response:
        """Answer kube-scheduler; what is wrong with its arguments is part of the result."""
        try:
            body = await self._extending.read(request)
            args = args_of(_json(body))
            answers: dict[str, Callable[[Args], object]] = {
                "filter": self.extender.filtered,
                "prioritize": self.extender.prioritized,
                "preempt": self.extender.preempted,
            }
            result = answers[verb](args)
        except InvalidInputError as error:
            if verb != "filter":  # the others have no place for an error
                return as_response(failed(error.text(), HTTPStatus.UNPROCESSABLE_ENTITY))
            result = refusal(error.text())
        except RefusedError as error:
            return as_response(failed(str(error), error.status))
        except GoneError:
            return Response(status_code=CLOSED)
        self.metrics.answered(verb, OK)
        return as_response(Answer(OK, json.dumps(result).encode()))

    async def _follow_files(self) -> None:
        """Show the round and plan of two files, whenever one of them changes.

        Both have to be as they are for a while: who writes them writes one after the other.
        """
        names = self.settings.round_file, self.settings.plan_file
        if names[0] is None or names[1] is None:
            return
        before: tuple[object, ...] = ()
        seen = before
        while True:
            now = tuple(_mark(Path(name)) for name in names if name is not None)
            if now == before and now != seen and None not in now and await self._load(*names):
                seen = now
            before = now
            await asyncio.sleep(FILE_SECONDS)

    async def _load(self, *names: str | None) -> bool:
        """Show the round and plan of two files; return False if it is to be tried again."""
        body = json.dumps(dict(zip(("round", "plan"), names, strict=True))).encode()
        question = Question("load", body, self.settings.seconds, publish=True)
        answer = await self._checks.ask(question, asyncio.Event().wait)
        if answer.status != OK:
            why = ErrorDocument.model_validate_json(answer.body).message
            log.warning("the plan is not shown: %s", printable(why))
        return answer.status != HTTPStatus.SERVICE_UNAVAILABLE


def _json(body: bytes) -> object:
    """Return what kube-scheduler sends: with as many keys as the cluster has nodes."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise InvalidInputError("expected valid JSON", show_value=False) from None


def as_response(answer: Answer, retry_after: int = 1) -> Response:
    """Return an answer as a response; of 503, also when to try again."""
    headers = {}
    if answer.status == HTTPStatus.SERVICE_UNAVAILABLE:
        headers["Retry-After"] = str(retry_after)
    return Response(answer.body, answer.status, headers, media_type="application/json")


def _mark(path: Path) -> tuple[int, int, int] | None:
    """Return what changes with a file; None if there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
