"""What converters of dumps of live clusters return, and a policy in place of the scheduler's."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from pydantic import ValidationError

from placewright.instances.checks.round import check_round
from placewright.instances.converters.bookkeeping import Bookkeeping
from placewright.instances.documents.policy import Policy
from placewright.instances.documents.round import Round
from placewright.instances.errors import InvalidInputError
from placewright.instances.io.files import load_values
from placewright.instances.io.validation_messages import invalid_input


class LiveConversion(NamedTuple):
    """A round made from a dump, a line about it, what was left out, and files without use."""

    round: Round
    summary: str
    book: Bookkeeping
    ignored: tuple[str, ...] = ()


class GivenPolicy:
    """Fields of a policy, as a round has them, that take the place of those of a scheduler.

    Parameters
    ----------
    file
        Its JSON or YAML: a mapping, such as `{backfill: null}` or `{aging: {doubles_after_s: 60}}`.

    Raises
    ------
    InvalidInputError
        The file cannot be read, or is no mapping.
    """

    def __init__(self, file: str | os.PathLike[str]) -> None:
        self._file = os.fspath(file)
        fields = load_values(file)
        if not isinstance(fields, dict):
            raise InvalidInputError(
                "expected fields of a policy, such as backfill: {depth: 1}",
                file=self._file,
                value=fields,
            )
        self.fields: Mapping[str, Any] = fields
        self._policy(Policy())

    def __str__(self) -> str:
        """Say which fields it has, in a line."""
        return f"policy: {', '.join(sorted(self.fields)) or 'nothing'} as in {self._file}"

    def of(self, made: LiveConversion) -> LiveConversion:
        """Return a round with this policy; its bookkeeping says so.

        Raises
        ------
        InvalidInputError
            The round cannot have it.
        """
        round_ = made.round.model_copy(update={"policy": self._policy(made.round.policy)})
        try:
            check_round(round_)
        except InvalidInputError as error:
            raise error.inside(self._file) from None
        made.book.notes.append(str(self))
        return made._replace(round=round_)

    def _policy(self, policy: Policy) -> Policy:
        given = {name: getattr(policy, name) for name in policy.model_fields_set}
        try:
            return Policy.model_validate({**given, **self.fields})
        except ValidationError as error:
            raise invalid_input(error, Policy).inside(self._file) from None
