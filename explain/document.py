"""Explanations as JSON documents; amounts are in small units."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

from placewright.explain.conflict import ConflictProof
from placewright.explain.explanation import Explanation
from placewright.explain.kinds import WaitingKind
from placewright.explain.loss import Loss
from placewright.explain.stages import Wait
from placewright.instances.derived.doubts import doubts_of
from placewright.instances.derived.source_words import LeftOut, words_of
from placewright.instances.documents.base import API_VERSION


def explanation_document(
    explanation: Explanation, digest: str, subject: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Return one explanation as an object.

    Parameters
    ----------
    digest
        That of the round, as plans name it.
    subject
        What it explains, as fields; None: the job of its name.
    """
    return {
        "apiVersion": API_VERSION,
        "kind": "Explanation",
        "round": digest,
        **({"job": explanation.job} if subject is None else subject),
        **_verdict(explanation),
        "proof": None if explanation.proof is None else _proof(explanation.proof),
        "places": [asdict(places) for places in explanation.places],
        "cost": None if explanation.cost is None else _cost(explanation.cost),
        **({} if explanation.wait is None else {"schedule": wait_document(explanation.wait)}),
        **({"scheduler": list(explanation.scheduler)} if explanation.scheduler else {}),
        "corrections": None
        if explanation.corrections is None
        else explanation.corrections.document(
            partial(words_of(explanation.world.base).say, job=explanation.job)
        ),
        "facts": explanation.facts,
        "questions": explanation.questions,
    }


def wait_document(wait: Wait) -> dict[str, Any]:
    """Return when a job runs in a schedule and what it waits for until then, as an object."""
    said = wait.scheduled.model_dump(mode="json")
    return {**said, "ready": wait.ready, "after": wait.after, "full": wait.full}


def left_out_document(name: str, left: Sequence[LeftOut], digest: str) -> dict[str, Any]:
    """Return why something of a round's source is not in the round, as an object."""
    head = {"apiVersion": API_VERSION, "kind": "Explanation", "round": digest, "job": name}
    return {**head, "verdict": "left_out", "left_out": [one._asdict() for one in left]}


def kinds_document(kinds: Sequence[WaitingKind], digest: str) -> dict[str, Any]:
    """Return all waiting jobs by what they wait for."""
    return {
        "apiVersion": API_VERSION,
        "kind": "Explanations",
        "round": digest,
        "groups": [
            {
                "jobs": list(kind.jobs),
                "milli_gpu": kind.milli_gpu,
                **_verdict(kind.explanation),
                "proof": None if kind.explanation.proof is None else _proof(kind.explanation.proof),
            }
            for kind in kinds
        ],
    }


def _verdict(explanation: Explanation) -> dict[str, Any]:
    base = explanation.world.base
    words = words_of(base)
    job = next(one for one in base.jobs if one.name == explanation.job)
    return {
        "verdict": str(explanation.verdict),
        "doubts": [*doubts_of(base, job), *explanation.of_hosts],
        **({} if explanation.held_by is None else {"held_by": asdict(explanation.held_by)}),
        "conflict": [
            {
                "stratum": fact.stratum.title,
                "kind": fact.kind,
                **fact.about,
                "text": words.say(fact.text, explanation.job),
            }
            for fact in explanation.conflict
        ],
    }


def _proof(proof: ConflictProof) -> dict[str, Any]:
    return {
        "blocked": proof.blocked,
        "minimal": proof.minimal,
        "witnesses": sum(witness.plan is not None for witness in proof.witnesses),
    }


def _cost(cost: Loss) -> dict[str, Any]:
    return {
        "startable": cost.startable,
        "term": cost.term,
        "at_least": cost.at_least,
        "at_most": cost.at_most,
        "proof": cost.proof,
        "tie": cost.is_tie,
        "instead": [
            {"job": one.job, "before": str(one.before), "after": str(one.after)}
            for one in cost.instead
        ],
    }
