"""Write the generated pages of docs/reference/: `python docs/write_reference.py`.

Each is made from what the program itself uses, and a test insists that they are as written.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from inspect import getdoc
from json import dumps
from pathlib import Path
from typing import Any

import typer

from placewright.cli.commands import app_with
from placewright.cli.interrupts import ExitCode
from placewright.instances.documents.plan import Reason
from placewright.instances.io.schema import KINDS, json_schema
from placewright.instances.policies import POLICIES, sense_of
from placewright.instances.verify import all_rules
from placewright.instances.verify.policies import RULES
from placewright.instances.verify.result import STATEMENTS
from placewright.topology.catalogue import CATALOGUE, HostModel

FOLDER = Path(__file__).parent / "reference"


def verbs(group: Any, words: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    """Yield each verb and the words that call it, in the order of `--help`."""
    for name in group.list_commands(typer.Context(group)):
        command = group.commands[name]
        if hasattr(command, "commands"):
            yield from verbs(command, (*words, name))
        else:
            yield " ".join((*words, name)), command


def cell(text: str) -> str:
    """Return text for one cell of a table."""
    return " ".join(text.split()).replace("|", r"\|")


def rows(command: Any) -> Iterator[str]:
    """Yield the table of a verb's arguments and options."""
    yield "| argument or option | meaning |\n|---|---|"
    for parameter in command.params:
        value = parameter.metavar or parameter.name.upper()
        if parameter.param_type_name == "argument":
            names = f"`{value}`"
        else:
            names = ", ".join(f"`{each}`" for each in (*parameter.opts, *parameter.secondary_opts))
            choices = getattr(parameter.type_descriptor, "choices", None) or ()
            shown = r"\|".join(choice.value for choice in choices) or value
            names += "" if parameter.is_flag else f" `{shown}`"
        default = getattr(parameter.default, "value", parameter.default)
        is_told = isinstance(default, int | float | str) and default not in (True, False, "")
        told = f" Default: `{default}`." if is_told else ""
        needed = " Required." if parameter.required and "[" not in names else ""
        yield f"| {names} | {cell(parameter.help or '')}{told}{needed} |"


def command_line() -> str:
    """Return the page of all verbs and options, and of the exit codes."""
    group = typer.main.get_command(app_with())
    parts = [
        "# Verbs and options",
        "What `--help` says. [The command line](../cli.md) has an example of each option.",
    ]
    for words, command in verbs(group, ("placewright",)):
        arguments = (each for each in command.params if each.param_type_name == "argument")
        usage = " ".join((words, *(each.metavar for each in arguments), "[OPTIONS]"))
        text = (command.help or "").partition("Example")[0]
        parts += [f"## {words.removeprefix('placewright ')}", f"    {usage}"]
        parts += [" ".join(text.split()), "\n".join(rows(command))]
    parts.append("## Exit codes")
    codes = "\n".join(f"| {code.value} | {cell(code.meaning)} |" for code in ExitCode)
    parts.append(f"| code | meaning |\n|---:|---|\n{codes}")
    return "\n\n".join(parts) + "\n"


def documented(one: Any) -> str:
    """Return the docstring of a function, or of that of which it is a part."""
    return getdoc(getattr(one, "func", one)) or ""


def rules() -> str:
    """Return the page of the rules of the verifier, from their docstrings."""
    intro = (
        "What `verify` requires of a plan, rule by rule. Those marked *says* are about what a plan "
        "says: who breaks no other has a valid placement, and `verify` exits with 12 instead of 7."
    )
    table = ["| rule | requires |\n|---|---|"]
    for rule in all_rules():
        text = cell(documented(rule.check).partition("\n\n")[0])
        says = " *says*" if rule.id in STATEMENTS else ""
        table.append(f"| `{rule.id}`{says} | {text} |")
    return "\n\n".join(("# Rules of verify", intro, "\n".join(table))) + "\n"


def listed(names: Iterable[str]) -> str:
    """Return names as code, with commas between."""
    return ", ".join(f"`{name}`" for name in names)


def terms() -> str:
    """Return the page of policies, terms (from the functions that verify them) and reasons."""
    parts = [
        "# Policies, terms, reasons",
        "Policies, what `verify` computes for each term, and what reasons of waiting jobs say; "
        + "[which plans exist](../plans.md#what-counts) has the details.",
        "## Terms",
    ]
    found: dict[tuple[str, str], list[str]] = {}
    for policy in POLICIES:
        for name, function in RULES[policy].terms.items():
            text = re.sub(r"\n\n(Notes\n-+\n)?", "\n", documented(function))
            found.setdefault((name, cell(text).removeprefix("Return ")), []).append(policy)
    rows = (
        f"| `{name}` | {sense_of(name)} | {', '.join(policies)} | {text[0].upper()}{text[1:]} |"
        for (name, text), policies in found.items()
    )
    parts.append("\n".join(("| term | sense | policies | formula |\n|---|---|---|---|", *rows)))
    said = re.findall(r"^`(\w+)`: (.*?)(?=^`|\Z)", getdoc(Reason) or "", re.MULTILINE | re.DOTALL)
    rows = (
        f"| `{spec.name}` | {spec.title} | {listed(spec.default)} "
        f"| {listed(spec.sections)} | {listed(spec.plan_sections)} |"
        for spec in POLICIES.values()
    )
    head = "| policy | decides | default terms | sections of a round | of a plan |"
    parts[2:2] = ["## Policies", "\n".join((head, "|---|---|---|---|---|", *rows))]
    rows = (f"| `{Reason(name).value}` | {cell(text)} |" for name, text in said)
    parts += ["## Reasons", "\n".join(("| reason | the option, or the job |\n|---|---|", *rows))]
    return "\n\n".join(parts) + "\n"


def kind_of(said: dict[str, Any], classes: dict[str, Any]) -> str:
    """Return what values a property has, in words; a class by its name, with a link."""
    if "$ref" in said:
        name = said["$ref"].rpartition("/")[2]
        if "properties" not in classes[name]:
            return kind_of(classes[name], classes)
        name = name.removesuffix("Document")
        return f"[{name}](#{name.lower()})"
    if "anyOf" in said:
        options = (each for each in said["anyOf"] if each.get("type") != "null")
        kinds = (kind_of(each, classes) for each in options)
        return " or ".join(dict.fromkeys(kinds))
    if "enum" in said or "const" in said:
        return ", ".join(f"`{value}`" for value in said.get("enum", [said.get("const")]))
    if said.get("type") == "array":
        return f"list of {kind_of(said['items'], classes)}" if "items" in said else "list"
    if said.get("type") == "object" and isinstance(said.get("additionalProperties"), dict):
        return f"mapping to {kind_of(said['additionalProperties'], classes)}"
    return {"string": "text"}.get(said.get("type", ""), said.get("type", "any"))


def documents() -> str:
    """Return the page of all properties of all documents, from their JSON Schemas."""
    parts = [
        "# Documents, property by property",
        "What the JSON Schemas say. [File formats](../file-formats.md) has whole examples.",
    ]
    shown: set[str] = set()
    for kind in KINDS:
        schema = json_schema(kind)
        for name, definition in ((kind, schema), *schema["$defs"].items()):
            title = name.removesuffix("Document")
            if "properties" not in definition or title in shown:
                continue
            shown.add(title)
            lines = ["| property | value | meaning | example |\n|---|---|---|---|"]
            for one, said in definition["properties"].items():
                default = said.get("default")
                needs = f"; default `{dumps(default)}`" if default not in (None, [], {}) else ""
                needs = "; required" if one in definition.get("required", ()) else cell(needs)
                example = cell(dumps(said["examples"][0], ensure_ascii=False))
                kinds, text = cell(kind_of(said, schema["$defs"])), cell(said["description"])
                lines.append(f"| `{one}` | {kinds}{needs} | {text} | `{example}` |")
            parts += [f"## {title}", "\n".join(lines)]
    return "\n\n".join(parts) + "\n"


def links_of(model: HostModel) -> str:
    """Return how the GPUs of a host model reach each other."""
    each = round(model.gpu_link.bandwidth_mbps / 8000)
    rack = " of the rack" if model.nvlink_hosts > 1 else ""
    joined = {
        "nvswitch": f"NVSwitch{rack}, {each} a GPU",
        "nvlink-mesh": f"direct {model.mesh_kind}, {each} a GPU in all",
        "pcie": f"PCI Express, {each} through a host bridge",
    }[model.intra]
    pairs = (f"{a}-{b}" for a, b, _ in model.mesh)
    return f"{joined}; bridges {', '.join(pairs)}" if model.lane_mbps else joined


def hosts() -> str:
    """Return the page of the host models, from the catalogue."""
    titles = (
        "`model`",
        "GPUs",
        "GiB each",
        "links, GB/s each way",
        "sockets",
        "cores",
        "GiB",
        "source",
    )
    rows = [titles, ("---",) * len(titles)]
    rows += (
        (
            f"`{model.name}`",
            f"{model.gpus} x {model.gpu_model}",
            str(model.gpu_memory_mib // 1024),
            links_of(model),
            str(len({*model.numa}) or ""),
            str(model.cpu_milli // 1000),
            str(model.memory_mib // 1024),
            cell(model.source),
        )
        for model in CATALOGUE.values()
    )
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    return f"# Host models\n\nWhat `model` of a host may name.\n\n{table}\n"


def needed(name: str, found: dict[str, Distribution]) -> dict[str, Distribution]:
    """Return a package and all that it needs without extras, by name."""
    key = re.sub(r"[-_.]+", "-", name).lower()
    if key not in found:
        try:
            found[key] = distribution(name)
        except PackageNotFoundError:  # of another platform or Python
            return found
        for need in found[key].requires or ():
            if "extra ==" not in need:
                needed(re.split(r"[ ;<>=!~\[(]", need)[0], found)
    return found


def licence(package: Distribution) -> str:
    """Return the licence that a package names."""
    said = package.metadata
    classes = [each for each in said.get_all("Classifier") or () if each.startswith("License ::")]
    named = classes[0].rpartition(":: ")[2] if classes else said.get("License") or "unknown"
    return said.get("License-Expression") or named


def licences() -> str:
    """Return the page of the packages that an installation without extras needs."""
    packages = needed("placewright", {})
    rows = [f"| {name} | {cell(licence(each))} |" for name, each in sorted(packages.items())]
    intro = "The packages that an installation without extras needs, and the licences they name."
    return (
        "\n\n".join(("# Licences", intro, "\n".join(("| package | licence |\n|---|---|", *rows))))
        + "\n"
    )


PAGES = {
    "command-line.md": command_line,
    "documents.md": documents,
    "hosts.md": hosts,
    "licences.md": licences,
    "rules.md": rules,
    "terms.md": terms,
}


def main() -> None:
    """Write all pages."""
    FOLDER.mkdir(exist_ok=True)
    for name, text in PAGES.items():
        (FOLDER / name).write_text(text(), encoding="utf-8")


if __name__ == "__main__":
    main()
