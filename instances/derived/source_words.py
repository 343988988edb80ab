"""Words and names of the source of a round: what Slurm and Kubernetes call things and jobs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import NamedTuple

from pydantic import ConfigDict, TypeAdapter, ValidationError

from placewright.instances.derived.names import check_known
from placewright.instances.derived.phrases import several
from placewright.instances.documents.annotations import MAX_TEXT
from placewright.instances.documents.bookkeeping import book_of
from placewright.instances.documents.job import Job
from placewright.instances.documents.round import Round
from placewright.instances.documents.source_keys import (
    ALSO,
    KUBERNETES_NAME,
    KUBERNETES_NAMESPACE,
    KUBERNETES_OWNER,
    KUBERNETES_POD_UIDS,
    KUBERNETES_PODS,
    KUBERNETES_TENANTS,
    KUBERNETES_UID,
    SLURM_COMPONENTS,
    SLURM_JOB,
    SOURCE,
)
from placewright.instances.errors import InvalidInputError, Path

# Words of the source of a round: what Slurm and Kubernetes call things, and their commands.
#
# Sentences are made in the words of rounds; `Words.say` turns one into the words of its source.


@dataclass(frozen=True, slots=True)
class Words:
    """How a source says what rounds say.

    Parameters
    ----------
    terms
        Patterns of words of rounds, each with what stands there instead, in this order.
    helps
        What its user can do about something that is left out, by a pattern of the reason why.
    epoch
        Whether its times are seconds since 1970.
    """

    terms: Sequence[tuple[re.Pattern[str], str]] = ()
    helps: Sequence[tuple[re.Pattern[str], str]] = ()
    epoch: bool = False

    def say(self, text: str, job: str = "") -> str:
        """Return a sentence, about a job, in the words of the source."""
        for pattern, term in self.terms:
            text = pattern.sub(term.replace("JOB", job.replace("\\", "\\\\")), text)
        return text

    def at(self, seconds: int) -> str:
        """Say when something is, as a date where the source has dates."""
        if not self.epoch:
            return f"at {seconds} s"
        return f"at {datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S} UTC"

    def help_for(self, name: str, why: str) -> str:
        """Return what can be done about something that is left out, "" if nothing is known."""
        found = next((text for pattern, text in self.helps if pattern.search(why)), "")
        return found.replace("ARRAY", name.partition("_")[0]).replace("JOB", name)


def _rows(table: str, begin: str = "", end: str = "") -> list[tuple[re.Pattern[str], str]]:
    r"""Return the rows of a table, `PATTERN = TEXT`; SET is a name, which \1 is in the text."""
    rows = (row.split(" = ", 1) for row in table.strip().splitlines())
    named = ((pattern.strip().replace("SET", r"([^\s,;:]+)"), text) for pattern, text in rows)
    return [(re.compile(f"{begin}(?:{pattern}){end}"), text) for pattern, text in named]


@cache
def _words(terms: str, helps: str) -> Words:
    """Return the words of tables: of whole words, not parts of names, and of reasons."""
    return Words(_rows(terms, r"(?<![\w./-])", r"(?![\w/]|[.-]\w)"), _rows(helps), epoch=True)


_NODES = """\
    hosts = nodes
    host = node
    Hosts = Nodes
"""
_SLURM = r"""
    on hosts of host set partition/SET only = in partition \1 only (-p)
    on hosts of host set feature/SET only = on nodes with feature \1 only (-C)
    on hosts of host set without/SET only = not on nodes that it excludes (-x)
    on hosts of host set reservation/SET only = in reservation \1 only
    on hosts of host set SET only = on nodes of \1 only
    allow hosts outside of host set partition/SET, too = another partition than \1 (-p)
    allow hosts outside of host set feature/SET, too = drop feature \1 (-C)
    allow hosts outside of host set without/SET, too = exclude no nodes (-x)
    allow hosts outside of host set SET, too = allow nodes outside of \1, too
    allow any host = ask for no nodes by name (-w)
    the job is held = the job is held (scontrol hold)
    resume it = release it: scontrol release JOB
    let it start at once = let it start at once: scontrol update jobid=JOB starttime=now
    cap qos/([^\s/]+)/(user|account)/SET = QOS \1 for \2 \3
    cap account/([^\s/]+)/(user|account)/SET = account \1 for \2 \3
    cap qos/SET = QOS \1
    cap account/SET = account \1
    within a cap = within a limit
    license/(\S+) of flavor SET = licence \1@\2
    license/SET = licence \1
    (?:of )?nodes(?:@| of flavor )together = nodes
    1 of gres/gpu:SET = 1 GPU of \1
    ([\d.,]+) of gres/gpu:SET = \1 GPUs of \2
    1,000 of node per task = its nodes alone (--exclusive)
    keep its tasks apart = keep its tasks on a node each (-N)
    release host (\S+) = take node \1 out of its reservation
    ask for a run time of at most = shorten --time to at most
    tenants = accounts
    tenant = account
    Tenants = Accounts
    Tenant = Account
"""
_SLURM_HELPS = r"""
    \(dependency\) = scontrol update jobid=JOB dependency= (it then waits for no job)
    limit of its array = scontrol update jobid=ARRAY arraytaskthrottle=N, with a higher N
    [Tt]ime ?[Ll]imit|longer than = scontrol update jobid=JOB timelimit=T, a lower T
    PartitionNodeLimit|more nodes = scontrol update jobid=JOB numnodes=N, with fewer
    limit that the round does not have = give convert what sacctmgr shows of associations and QOS
    begins later = scontrol update jobid=JOB starttime=now
    may use no node = scontrol update jobid=JOB partition=P features= excnodelist=
    GPU model = scontrol update jobid=JOB gres=gpu:N, or a type that nodes have
    \((?:Invalid)?(?:Account|QOS) = scontrol update jobid=JOB account=A qos=Q
"""
_KUBERNETES = r"""
    on hosts of host set label/SET only = on nodes with label \1 only
    on hosts of host set flavor/SET only = on nodes of flavor \1 only
    on hosts of host set level/SET only = on nodes that have label \1 only
    on hosts of host set SET only = on nodes that meet \1 only
    allow hosts outside of host set label/SET, too = drop its node selector \1
    allow hosts outside of host set flavor/SET, too = another flavor than \1
    allow hosts outside of host set level/SET, too = label nodes with \1
    allow hosts outside of host set SET, too = allow nodes without \1, too
    the job is held = it is held (gate, suspended or its queue stopped)
    resume it = take its gate away, resume it, or start its queue again
    release host = open node
    reserved = closed (cordoned, or with pods that are left out)
    within a cap = within the quota of its queues
    cap resource-quota/SET = ResourceQuota \1
    SET of flavor resource-quota/SET = \1
    cap queue/SET = queue \1
    cap cohort/SET = cohort \1
    tenants = queues
    tenant = queue
    Tenants = Queues
    Tenant = Queue
"""
_KUBERNETES_HELPS = """
    fewer pods = create the missing pods, or lower the minimum of its group
    may go to no node = kubectl describe pod JOB: change what no node meets
    has no pods = create its pods
"""
_KUEUE = """\
    queues = ClusterQueues
    queue = ClusterQueue
"""
_WORDS: Mapping[str, tuple[str, str]] = {
    "slurm": (_SLURM + _NODES, _SLURM_HELPS),
    "kubernetes": (_KUBERNETES + _NODES, _KUBERNETES_HELPS),
    "kueue": (_KUBERNETES + _NODES + _KUEUE, _KUBERNETES_HELPS),
}
OF_ROUNDS = Words()


def words_of(round_: Round) -> Words:
    """Return the words of the source of a round; those of rounds where it has none."""
    notes = round_.annotations
    tables = _WORDS.get(notes.get(KUBERNETES_TENANTS, notes.get(SOURCE, "")))
    return OF_ROUNDS if tables is None else _words(*tables)


# Names by which people know a job of a source: its jobs in the round, or why it has none there.


_NAMES = (SLURM_JOB, SLURM_COMPONENTS, KUBERNETES_NAME, f"{KUBERNETES_OWNER}name", KUBERNETES_PODS)
_UIDS = (KUBERNETES_UID, f"{KUBERNETES_OWNER}uid", KUBERNETES_POD_UIDS)
_NAMES_ALSO = TypeAdapter(tuple[str, ...], config=ConfigDict(defer_build=True))
_PART = re.compile(r"([0-9]+)[_+][0-9]+")
"""A task of an array, or a component of a heterogeneous job."""


class LeftOut(NamedTuple):
    """Something of a source that is not in the round: its names there, why not, what helps."""

    name: str
    why: str
    help: str
    also: Sequence[str] = ()


def also_of(names: Iterable[str]) -> str:
    """Return the annotation `ALSO` of some names, "" if there are none."""
    listed = list(dict.fromkeys(names))
    text = json.dumps(listed) if listed else ""
    return text if len(text) <= MAX_TEXT else ""


def names_of(job: Job) -> Iterator[str]:
    """Yield all names that a job has in its source, some several times."""
    yield job.name
    space = job.annotations.get(KUBERNETES_NAMESPACE, "")
    for key, text in job.annotations.items():
        if key.startswith(_NAMES):
            yield from (f"{space}/{name}" if space else name for name in text.split(","))
        elif key.startswith(_UIDS):
            yield from text.split(",")
        elif key == ALSO:
            yield from _listed(text)


def is_called(names: Iterable[str], name: str) -> bool:
    """Whether a name is among some, or is one of them without its namespace, or its array."""
    short, whole = f"/{name}", name.isdecimal()
    return any(
        one == name
        or one.endswith(short)
        or (whole and (part := _PART.fullmatch(one)) is not None and part[1] == name)
        for one in names
    )


def jobs_called(round_: Round, name: str) -> list[Job]:
    """Return the job of a name, or else those with it in the source, those that wait first."""
    exact = next((job for job in round_.jobs if job.name == name), None)
    if exact is not None:
        return [exact]
    found = [job for job in round_.jobs if is_called(names_of(job), name)]
    return sorted(found, key=lambda job: job.running is not None)


def all_left_out(round_: Round) -> Iterator[LeftOut]:
    """Yield all that the source has and the round has not, as far as its bookkeeping has names."""
    book, words = book_of(round_.annotations), words_of(round_)
    if book is None:
        return
    reasons = {name: kind.reason for kind in book.left_out for name in kind.names}
    for name in reasons | book.why:
        why = ": ".join(filter(None, (reasons.get(name), book.why.get(name))))
        yield LeftOut(name, why, words.help_for(name, why), book.also.get(name, ()))


def left_out_called(round_: Round, name: str) -> list[LeftOut]:
    """Return what the source has of a name and the round has not, with the reasons."""
    part = _PART.fullmatch(name)
    whole = part[1] if part else name
    left = all_left_out(round_)
    return [one for one in left if one.name == whole or is_called((one.name, *one.also), name)]


def check_in_round(round_: Round, name: str, path: Path) -> list[Job]:
    """Return the jobs of a name, and refuse one that has none.

    Raises
    ------
    InvalidInputError
        It is left out of the round, with the reason; or nothing has this name.
    """
    found = jobs_called(round_, name)
    if found:
        return found
    left = left_out_called(round_, name)
    if left:
        raise InvalidInputError(
            f"is not in the round: {whys(left)}; expected a job of the round", path, name
        )
    check_known(name, {job.name for job in round_.jobs}, "job", path)
    return []


def by_reason(left: Iterable[LeftOut]) -> dict[str, list[str]]:
    """Return the names of things that are left out by the reason why."""
    reasons: dict[str, list[str]] = {}
    for one in left:
        reasons.setdefault(one.why, []).append(one.name)
    return reasons


def whys(left: Sequence[LeftOut]) -> str:
    """Say why some things are left out, each reason once."""
    reasons = by_reason(left)
    several_reasons = len(reasons) > 1
    said = (f"{several(n)}: {why}" if several_reasons else why for why, n in reasons.items())
    return "; ".join(said)


def _listed(text: str) -> tuple[str, ...]:
    try:
        return _NAMES_ALSO.validate_json(text)
    except (ValidationError, RecursionError):
        return ()
