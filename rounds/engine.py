"""`Engine`: consecutive rounds of one cluster, each warm-started from the one before."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from typing import NoReturn, Self

from placewright.collection import no_collection
from placewright.formulations.gang.incremental import IncrementalGang
from placewright.instances.checks.round import checked, hosts_by_name
from placewright.instances.documents.job import Job
from placewright.instances.documents.plan import DecisionKind, Plan
from placewright.instances.documents.round import Round
from placewright.instances.errors import InvalidInputError
from placewright.rounds.backfill.queue import reservations_of
from placewright.rounds.deciders.base import Memory
from placewright.rounds.regions.executors import check_executor
from placewright.rounds.settings import Isolation, Settings, Solver
from placewright.rounds.solve import Progress, Solve
from placewright.rounds.state.admission import (
    Admitted,
    Ledger,
    answer_admission,
    check_asks_for_promise,
)
from placewright.rounds.state.changes import Changes, TransferOrders, apply_changes, apply_plan
from placewright.solver import Worker


class Engine:
    """Decides one round after the other and assumes that each plan is carried out.

    What started or migrated runs where the plan says, what was preempted is pending again, what
    waits stays pending. Copies of data that it orders are under way; what they still need of links
    and storage is not there for the next rounds. If something else happened, the next `Changes` say
    so. A context manager: its solver process lives until `close`.

    Parameters
    ----------
    round
        The first round.
    time_limit, gap, backend, seed, deterministic, progress, isolation, executor
        As for `solve_round`, for each round, and checked as there.

    Attributes
    ----------
    state : Round
        What the last plan leads to; the round given, before the first. Links and storage are as
        given or changed.
    round_solved : Round
        The round that the last plan is for, as `verify` wants it.

    Raises
    ------
    RuntimeError
        By `round_solved`, before the first round.
    TypeError
        By `pickle` and `copy`: an engine has a solver process, and threads wait for each other.
    """

    def __init__(
        self,
        round: Round,  # noqa: A002
        *,
        time_limit: float | None = None,
        gap: float | None = None,
        backend: str = "auto",
        seed: int | None = None,
        deterministic: bool | None = None,
        progress: Progress | None = None,
        isolation: Isolation = "auto",
        executor: Executor | None = None,
    ) -> None:
        self.state = round = checked(round)  # noqa: A001
        self._solved: Round | None = None
        self._settings = Settings.of(
            round,
            time_limit=time_limit,
            gap=gap,
            backend=backend,
            seed=seed,
            deterministic=deterministic,
            isolation=isolation,
        )
        check_executor(round, executor)
        self._progress, self._executor = progress, executor
        self._hosts = hosts_by_name(round.cluster)
        self._memory = Memory()
        self._formulation = IncrementalGang()
        self._restart_s: dict[str, int] = {}
        self._orders = TransferOrders()
        self._solver: Solver | None = None
        self._locks: dict[int, threading.RLock] = {}

    def __reduce__(self) -> NoReturn:
        raise TypeError("an Engine cannot be pickled or copied; expected its `state`, a Round")

    @property
    def round_solved(self) -> Round:
        """The round that the last plan is for."""
        if self._solved is None:
            raise RuntimeError("no round has been decided yet; expected a call of `round` before")
        return self._solved

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Serialise calls: wait for those of other threads of this process.

        A fork knows nothing of the thread that held a lock when it was made, so each process has
        its own.
        """
        with self._locks.setdefault(os.getpid(), threading.RLock()):
            yield

    def round(self, changes: Changes | None = None) -> Plan:
        """Make the changes, decide the round that they lead to, and carry its plan out.

        Parameters
        ----------
        changes
            What happened since the last plan; None: nothing.

        Returns
        -------
        Plan
            A verified plan with its certificate, for `round_solved`.

        Raises
        ------
        InvalidInputError
            If the changes make no sense; the engine is then as it was before.
        InternalError
            As `solve_round` does; the engine is then as it was before.
        """
        with self._alone(), no_collection():
            return self._round(changes)

    def _round(self, changes: Changes | None) -> Plan:
        if not isinstance(changes, Changes | None):
            raise InvalidInputError("expected Changes", ("changes",), changes)
        coming = self.state if changes is None else apply_changes(self.state, changes, self._hosts)
        round_ = self._orders.residual_round(coming)
        if self._solver is None:
            self._solver = self._settings.solver()
        solve = Solve(
            round_,
            self._settings,
            self._progress,
            self._memory,
            self._formulation,
            self._executor,
        )
        plan = solve.plan(self._solver)
        self._remember_restarts(round_, plan, changes)
        self.state = apply_plan(coming, plan, self._restart_s)
        self._orders = self._orders.after(round_, plan.sections)
        self._memory.ledger = Ledger.of(plan.sections)
        self._memory.reservations = reservations_of(plan.sections)
        if self._solved is None:
            self._memory.learn(self.state.valid_part())
        self._solved = round_
        return plan

    def admit(self, job: Job) -> Admitted:
        """Answer one job that asks for a promise, at once: all promises made so far are kept.

        The current lease stays as the last plan has it, so the job runs from the next one on. A job
        that is promised a time is part of `state` from now on, with its promise; one that is
        refused is not, and may ask again, for a later time or as best effort.

        Parameters
        ----------
        job
            A pending job with due times; the policy is `deadline`.

        Returns
        -------
        Admitted
            The best promise that was found, or by when the job could be done instead. With gangs of
            unlike sizes a promise may be possible that the search does not find.

        Raises
        ------
        InvalidInputError
            If the job makes no sense in the round, or asks for nothing; the engine is then as it
            was before.

        Examples
        --------
        >>> answer = engine.admit(job)  # doctest: +SKIP
        >>> answer.promise.at if answer.promise else answer.finish  # doctest: +SKIP
        86400
        """
        if not isinstance(job, Job):
            raise InvalidInputError("expected a Job", ("job",), job)
        with self._alone():
            return self._admit(job)

    def _admit(self, job: Job) -> Admitted:
        check_asks_for_promise(self.state, job)
        now = self.state.now
        if self._solved is not None:
            now += self.state.leases.length_s
        coming = apply_changes(self.state, Changes(added=(job,), now=now), self._hosts)
        answer = answer_admission(coming.valid_part(), self._memory.ledger)
        if answer.promise is not None:
            jobs = (*self.state.jobs, job.with_promise(answer.promise))
            self.state = self.state.model_copy(update={"jobs": jobs})
        return answer

    def close(self) -> None:
        """End the solver process; a later round starts another."""
        with self._alone():
            if isinstance(self._solver, Worker):
                self._solver.close()
            self._solver = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _remember_restarts(self, round_: Round, plan: Plan, changes: Changes | None) -> None:
        """Keep how long preempted jobs take to start again, as long as they exist."""
        for name in () if changes is None else changes.removed:
            self._restart_s.pop(name, None)
        for job, decision in zip(round_.jobs, plan.decisions, strict=True):
            if decision.decision is DecisionKind.PREEMPT and job.running is not None:
                self._restart_s[job.name] = job.running.restart_s
