"""What a plan's document does with each job, as choices."""

from __future__ import annotations

from fuzz.book.choices import Choice, Choices
from fuzz.book.facts import Facts
from fuzz.policy import Raw


def choices_of(facts: Facts, plan: Raw) -> Choices:
    """Return the choices of a plan; invalid jobs have none."""
    choices = []
    for decision in decisions_of(facts, plan):
        places = tuple(
            sorted(
                (
                    task.get("group", 0),
                    task.get("index", 0),
                    facts.numbers[task["host"]],
                    tuple(sorted(task.get("gpus", ()))),
                    task.get("slot"),
                )
                for task in decision.get("tasks", ())
            )
        )
        option = decision.get("option")
        choices.append(Choice(decision["decision"], -1 if option is None else option, places))
    return tuple(choices)


def decisions_of(facts: Facts, plan: Raw) -> list[Raw]:
    """Return the decisions of a plan on jobs that are not invalid, in the order of the round."""
    return [decision for decision in plan["decisions"] if decision["job"] not in facts.invalid]
