"""Words of the source of a round: what Slurm and Kubernetes call things, and their commands.

Sentences are made in the words of rounds; `Words.say` turns one into the words of its source.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from placewright.instances.documents.round import Round
from placewright.instances.documents.source_keys import SOURCE


@dataclass(frozen=True, slots=True)
class Words:
    """How a source says what rounds say.

    Parameters
    ----------
    terms
        Patterns of words of rounds, each with what stands there instead, in this order.
    helps
        What its user can do about something that is left out, by a pattern of the reason why;
        `{0}` is its name, `{1}` that of the array of a task.
    epoch
        Whether its times are seconds since 1970.
    """

    terms: Sequence[tuple[re.Pattern[str], str]] = ()
    helps: Sequence[tuple[re.Pattern[str], str]] = ()
    epoch: bool = False

    def say(self, text: str) -> str:
        """Return a sentence in the words of the source."""
        for pattern, term in self.terms:
            text = pattern.sub(term, text)
        return text

    def at(self, seconds: int) -> str:
        """Say when something is, as a date where the source has dates."""
        if not self.epoch:
            return f"at {seconds} s"
        return f"at {datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S} UTC"

    def help_for(self, name: str, why: str) -> str:
        """Return what can be done about something that is left out, "" if nothing is known."""
        found = (text for pattern, text in self.helps if pattern.search(why))
        return next(found, "").format(name, name.partition("_")[0])


def _table(rows: Mapping[str, str], *, words: bool = False) -> list[tuple[re.Pattern[str], str]]:
    """Compile the patterns of a table; `words`: they stand for whole words, not parts of names."""
    ends = (r"(?<![\w./-])", r"(?![\w/]|[.-]\w)") if words else ("", "")
    return [(re.compile(f"{ends[0]}(?:{one}){ends[1]}"), said) for one, said in rows.items()]


_SLURM = Words(
    _table(
        {
            r"resume it": "release it: scontrol release",
            r"hosts outside of host set partition/([^\s,;]+)": r"other partitions than \1 (-p)",
            r"hosts outside of host set feature/([^\s,;]+)": r"nodes without feature \1 (-C)",
            r"hosts outside of host set without/([^\s,;]+)": r"the nodes that it excludes (-x)",
            r"hosts outside of host set ([^\s,;]+)": r"nodes outside of \1",
            r"only hosts of host set partition/([^\s,;]+)": r"partition \1 alone (-p)",
            r"host set partition/([^\s,;]+)": r"partition \1 (-p)",
            r"host set feature/([^\s,;]+)": r"feature \1 (-C)",
            r"host set without/([^\s,;]+)": r"the nodes that it does not exclude (-x)",
            r"host set reservation/([^\s,;]+)": r"reservation \1",
            r"allow any host": "allow any node (-w)",
            r"tenants": "accounts",
            r"tenant": "account",
            r"hosts": "nodes",
            r"host": "node",
        },
        words=True,
    ),
    _table(
        {
            r"\(dependency\)": "scontrol update jobid={0} dependency= (it then waits for no job)",
            r"limit of its array": "scontrol update jobid={1} arraytaskthrottle=N, with a higher N",
            r"[Tt]ime ?[Ll]imit|longer than": "scontrol update jobid={0} timelimit=T, a lower T",
            r"PartitionNodeLimit|more nodes": "scontrol update jobid={0} numnodes=N, with fewer",
            r"limit that the round does not have": "give convert what sacctmgr shows of "
            "associations and QOS; to raise a limit: sacctmgr modify account or qos",
            r"begins later": "scontrol update jobid={0} starttime=now",
            r"may use no node": "scontrol update jobid={0} partition=P features= excnodelist=",
            r"GPU model": "scontrol update jobid={0} gres=gpu:N, or a type that nodes have",
            r"\((?:Invalid)?(?:Account|QOS)": "scontrol update jobid={0} account=A qos=Q",
        }
    ),
    epoch=True,
)
_KUBERNETES = Words(
    _table(
        {
            r"resume it": "take its hold away (gate, suspend or stopped queue)",
            r"host set label/([^\s,;]+)": r"node label \1",
            r"host set flavor/([^\s,;]+)": r"flavor \1",
            r"tenants": "ClusterQueues",
            r"tenant": "ClusterQueue",
            r"hosts": "nodes",
            r"host": "node",
        },
        words=True,
    ),
    _table(
        {
            r"fewer pods": "create the pods that are missing, or lower the minimum of its group",
            r"may go to no node": "kubectl describe pod {0}: change what no node meets",
            r"has no pods": "create its pods",
        }
    ),
    epoch=True,
)
_WORDS: Mapping[str, Words] = {"slurm": _SLURM, "kubernetes": _KUBERNETES}
_OF_ROUNDS = Words()


def words_of(round_: Round) -> Words:
    """Return the words of the source of a round; those of rounds where it has none."""
    return _WORDS.get(round_.annotations.get(SOURCE, ""), _OF_ROUNDS)
