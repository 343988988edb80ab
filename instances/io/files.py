"""Reading and writing documents as JSON or YAML; `-` is standard input or output.

Whatever cannot be read, or is not what it should be, is an `InvalidInputError`.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import ValidationError

from placewright.instances.checks.round import check_cluster, checked, with_invalid_jobs
from placewright.instances.documents.base import API_VERSION, Document
from placewright.instances.documents.cluster import ClusterDocument
from placewright.instances.documents.form_errors import invalid_input
from placewright.instances.documents.job import Job
from placewright.instances.documents.option import Option, TaskGroup
from placewright.instances.documents.plan import Plan
from placewright.instances.documents.round import Round
from placewright.instances.errors import InvalidInputError, merged
from placewright.instances.errors import Path as DocumentPath
from placewright.instances.io import streams, yaml_json
from placewright.instances.io.shared_options import with_shared_options
from placewright.instances.io.validation_messages import lines_of, reference_errors

if TYPE_CHECKING:
    from placewright.instances.documents.edits import Edits

# Folders of files to read.


def entries_of(folder: str) -> list[os.DirEntry[str]]:
    """Return what is in a folder, but not in folders below, sorted by path."""
    try:
        return sorted(os.scandir(folder), key=lambda entry: entry.path)
    except OSError as error:
        raise InvalidInputError(
            f"cannot be read ({error.strerror}); expected a folder to read", file=folder
        ) from None


# Whatever is wrong with a file is one `InvalidInputError`; nothing half-read is ever returned.
# A file is JSON or YAML by its suffix; without either suffix, text that starts with `{` is JSON.


MAX_JSON_MIB = 256
MAX_YAML_MIB = 16
MAX_VALUES = 20_000_000
"""Of these a document is made that takes some 6 GiB; a million GPUs and jobs on them are 6 million.

Size alone says little: the shortest values take thirty times their length.
"""


AnyPath = str | os.PathLike[str]
_BEFORE_WHOLE_UNITS = "placewright/v1alpha1"
_NOW_WHOLE_UNITS = (
    f"expected {API_VERSION}, in which numbers are whole GPUs and cores (gpu: 8, cpu: 1500m) and "
    "memory has a suffix (64Gi); before they were thousandths and MiB"
)
_YAML_SUFFIXES = (".yaml", ".yml")
_MIB = 1024**2
_D = TypeVar("_D", bound=Document)
_T = TypeVar("_T")


def load(path: AnyPath, *, lenient: bool = False) -> Round | ClusterDocument | Plan | Edits:
    """Read a document of any kind and check its references; a Round as `load_round` does.

    Raises
    ------
    InvalidInputError
        The file cannot be read, or is not a valid document.
    """
    parsers: dict[str, Callable[[Any, str], Round | ClusterDocument | Plan | Edits]] = {
        "Round": partial(parse_round, lenient=lenient),
        "Cluster": parse_cluster,
        "Plan": parse_plan,
        "Edits": parse_edits,
    }
    return _loaded(path, parsers)


def load_round(path: AnyPath, *, lenient: bool = False) -> Round:
    """Read a Round and check its references.

    Parameters
    ----------
    path
        Its file.
    lenient
        Pending jobs that make no sense, such as those of an unknown tenant, do not lose the round:
        they are its `invalid` jobs, and wait.

    Raises
    ------
    InvalidInputError
        The file cannot be read, or is not a valid Round.
    """
    return _loaded(path, {"Round": partial(parse_round, lenient=lenient)})


def load_cluster(path: AnyPath) -> ClusterDocument:
    """Read a Cluster and check its references.

    Raises
    ------
    InvalidInputError
        The file cannot be read, or is not a valid Cluster.
    """
    return _loaded(path, {"Cluster": parse_cluster})


def load_plan(path: AnyPath) -> Plan:
    """Read a Plan; whether it suits a round is for `verify` to say.

    Raises
    ------
    InvalidInputError
        The file cannot be read, or is not a valid Plan.
    """
    return _loaded(path, {"Plan": parse_plan})


def load_edits(path: AnyPath) -> Edits:
    """Read Edits, a bare list of them, or jobs to submit (one, or under `jobs`).

    Whether they suit a round is for `apply_edits` to say.

    Raises
    ------
    InvalidInputError
        The file cannot be read, or does not hold valid Edits.
    """
    return _loaded(path, {"Edits": parse_edits}, _with_head)


def load_values(path: AnyPath) -> Any:
    """Read plain values from JSON or YAML, of whatever form."""
    return parse_values(load_text(path), os.fspath(path))


def load_text(path: AnyPath) -> str:
    """Read a file of text in UTF-8, within the limits of a document."""
    file = os.fspath(path)
    try:
        return _text(file)
    except InvalidInputError as error:
        raise error.inside(file) from None


def parse_values(text: str, file: str) -> Any:
    """Return plain values of the text of a file, which is JSON or YAML by its name and start."""
    try:
        return _parse(text, file)
    except InvalidInputError as error:
        raise error.inside(file) from None


def _with_head(raw: Any) -> Any:
    """Return a bare list of edits, or jobs to submit, as a document."""
    if isinstance(raw, dict) and "kind" not in raw and {"jobs", "options"} & raw.keys():
        raw = [{"submit": raw.get("jobs", [raw])}]
    if not isinstance(raw, list):
        return raw
    return {"apiVersion": API_VERSION, "kind": "Edits", "edits": raw}


def _loaded(
    path: AnyPath,
    parsers: Mapping[str, Callable[[Any, str], _T]],
    completed: Callable[[Any], Any] = lambda raw: raw,
) -> _T:
    """Read a document of one of these kinds; errors say on which lines of the file they are.

    `completed` adds to plain values what the file may leave out.
    """
    file = os.fspath(path)
    text, raw = "", None
    try:
        text = _text(file)
        raw = completed(_parse(text, file))
        return parsers[headed(raw, file, *parsers)["kind"]](raw, file)
    except InvalidInputError as error:
        elsewhere = error.file not in {None, file}  # in a file that this one refers to
        raise (error if elsewhere else _located(error.inside(file), text, raw)) from None


def _located(error: InvalidInputError, text: str, raw: Any) -> InvalidInputError:
    """Return the errors of a file with their lines, and the names of list entries."""
    lines = lines_of(text, {one.path for one, _ in error.told() if one.path})

    def entry(path: DocumentPath) -> str | None:
        try:
            name = raw[path[0]][path[1]]["name"]
        except (LookupError, TypeError):
            return None
        return name if isinstance(name, str) else None

    return error.located(lines.get, entry)


def parse_round(raw: Mapping[str, Any], file: str | None = None, *, lenient: bool = False) -> Round:
    """Turn plain values into a Round and check its references.

    Parameters
    ----------
    raw
        The document; its cluster may be `{"ref": path}`, a path as seen from the folder of `file`,
        which it may not leave.
    file
        Where it comes from, None for values in memory.
    lenient
        As for `load_round`.

    Raises
    ------
    InvalidInputError
        It is not a valid Round; an error inside a referred cluster names that cluster's file, and
        quotes nothing of it.
    """
    cluster = raw.get("cluster")
    if isinstance(cluster, dict) and "ref" in cluster:
        try:
            raw = {**raw, "cluster": _referred(cluster, file)}
        except InvalidInputError as error:
            raise (error.inside(file) if file else error) from None
    for inner in (TaskGroup, Option, Job, ClusterDocument):
        inner.model_rebuild()  # once, before the whole builds on it
    if "jobs" in raw:
        raw = {**raw, "jobs": with_shared_options(raw["jobs"])}
    check = with_invalid_jobs if lenient else checked
    return _document(Round, raw, file, check, lambda forms: reference_errors(raw, forms, check))


def parse_cluster(raw: Mapping[str, Any], file: str | None = None) -> ClusterDocument:
    """Turn plain values into a Cluster and check its references."""
    return _document(ClusterDocument, raw, file, _checked_cluster)


def parse_plan(raw: Mapping[str, Any], file: str | None = None) -> Plan:
    """Turn plain values into a Plan."""
    return _document(Plan, raw, file)


def parse_edits(raw: Mapping[str, Any], file: str | None = None) -> Edits:
    """Turn plain values into Edits."""
    from placewright.instances.documents.edits import Edits

    return _document(Edits, raw, file)


def write(document: Document, path: AnyPath) -> None:
    """Write a document: YAML if the path ends so, else JSON.

    A Plan is written in full, but for slots if no task has one; a Round or Cluster without what
    equals the default.

    Raises
    ------
    InvalidInputError
        The file cannot be written.
    """
    file = os.fspath(path)
    if file.lower().endswith(_YAML_SUFFIXES):
        lean = not isinstance(document, Plan)
        unused = None if lean else _without_slots(document)
        text = yaml_json.dump_yaml(
            _head(document)
            | document.model_dump(mode="json", exclude=unused, exclude_defaults=lean)
        )
    else:
        text = json_text(document)
    streams.write(file, text.encode())


def json_text(document: Document) -> str:
    """Return a document as `write` writes it as JSON."""
    lean = not isinstance(document, Plan)
    unused = None if lean else _without_slots(document)
    text = document.model_dump_json(exclude=unused, exclude_defaults=lean, indent=1) + "\n"
    if lean:  # a document says what it is, although that is a default
        text = json.dumps(_head(document), indent=1)[:-2] + "," + text[1:]
    return text


def _head(document: Document) -> dict[str, Any]:
    return {"apiVersion": API_VERSION, "kind": type(document).model_fields["kind"].default}


def _without_slots(document: Document) -> Any:
    """Return what to leave out of a plan without MIG slices."""
    tasks = (t for d in getattr(document, "decisions", ()) for t in d.tasks)
    if any(task.slot is not None for task in tasks):
        return None
    return {"decisions": {"__all__": {"tasks": {"__all__": {"slot"}}}}}


def headed(raw: Any, file: str | None, *kinds: str) -> dict[str, Any]:
    """Return plain values if they are a mapping of a known version and one of these kinds."""
    try:
        if not isinstance(raw, dict):
            raise InvalidInputError("expected a mapping with apiVersion and kind", value=raw)
        for key, known in (("apiVersion", (API_VERSION,)), ("kind", kinds)):
            if key not in raw:
                raise InvalidInputError(f"missing; expected {' or '.join(known)}", (key,))
            if raw[key] == _BEFORE_WHOLE_UNITS:
                raise InvalidInputError(_NOW_WHOLE_UNITS, (key,), raw[key])
            if raw[key] not in known:
                raise InvalidInputError(f"expected {' or '.join(known)}", (key,), raw[key])
    except InvalidInputError as error:
        raise (error.inside(file) if file else error) from None
    return raw


def _text(file: str) -> str:
    return text_of(streams.read(file, MAX_JSON_MIB * _MIB))


def text_of(content: bytes) -> str:
    """Return the text of a document's bytes, in UTF-8 and within the limits of a document."""
    if len(content) > MAX_JSON_MIB * _MIB:
        raise InvalidInputError(f"too long; expected at most {MAX_JSON_MIB} MiB")
    if sum(content.count(mark) for mark in (b",", b"[", b"{")) > MAX_VALUES:
        raise InvalidInputError(f"too many values; expected at most {MAX_VALUES:,}")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidInputError(f"byte {error.start}: expected text in UTF-8") from None
    if not text or text.isspace():
        raise InvalidInputError("empty; expected a JSON or YAML document")
    return text


def _parse(text: str, file: str) -> Any:
    suffix = Path(file).suffix.lower()
    if suffix == ".json" or (suffix not in _YAML_SUFFIXES and text.lstrip().startswith("{")):
        return yaml_json.parse_json(text)
    if len(text) > MAX_YAML_MIB * _MIB:
        raise InvalidInputError(f"too long; expected at most {MAX_YAML_MIB} MiB of YAML, or JSON")
    return yaml_json.parse_yaml(text)


def _referred(cluster: dict[str, Any], file: str | None) -> ClusterDocument:
    reference = cluster["ref"]
    if not isinstance(reference, str) or not reference or len(cluster) > 1:
        raise InvalidInputError('expected {"ref": "path of a Cluster file"}', ("cluster",), cluster)
    if file is None or file == streams.STANDARD_STREAM:
        raise InvalidInputError(
            "has no folder to look in; expected the cluster itself, or the round as a file",
            ("cluster", "ref"),
            reference,
        )
    return _inside(Path(file).parent, reference)


def _inside(folder: Path, reference: str) -> ClusterDocument:
    """Read a cluster in a folder.

    Whoever wrote the round need not be allowed to read what its reader may: neither files
    elsewhere, nor, by way of an error, one here that is no cluster.
    """
    file = os.fspath(folder / reference)
    try:
        inside = (folder / reference).resolve().is_relative_to(folder.resolve())
    except (OSError, RuntimeError, ValueError):  # a loop of links, a null character
        inside = False
    if not inside or Path(reference) == Path(streams.STANDARD_STREAM):
        raise InvalidInputError(
            "expected a file in the round's folder or below it", ("cluster", "ref"), reference
        )
    try:
        values = load_values(file)
    except InvalidInputError as error:
        raise InvalidInputError(error.expected, file=file) from None
    try:
        return parse_cluster(headed(values, file, "Cluster"), file)
    except InvalidInputError as error:
        raise InvalidInputError(error.expected, error.path, file=file) from None


def _document(
    kind: type[_D],
    raw: Mapping[str, Any],
    file: str | None,
    checked: Callable[[_D], _D] = lambda document: document,
    further: Callable[[InvalidInputError], Iterable[InvalidInputError]] = lambda _: (),
) -> _D:
    try:
        return checked(kind.model_validate(raw))
    except ValidationError as error:
        forms = invalid_input(error, kind, raw)
        refused = merged([*forms.errors, *further(forms)])
        raise (refused.inside(file) if file else refused) from None
    except InvalidInputError as error:
        raise (error.inside(file) if file else error) from None


def _checked_cluster(cluster: ClusterDocument) -> ClusterDocument:
    check_cluster(cluster)
    return cluster


# Files of several documents: YAML between lines of `---`, or JSON one after the other.


_YAML = re.compile(r"^---(?=\s|$)", re.MULTILINE)
_JSON = re.compile(r"(?<=[}\]])[ \t\r]*+\n(?:\s*+---[ \t\r]*+\n)?+\s*+(?=[{\[])")
"""Between two values, as no JSON has it within one."""

_SAYS_SOMETHING = re.compile(r"^[ \t]*+[^\s#%]", re.MULTILINE)


def load_documents(path: AnyPath) -> list[Any]:
    """Read all documents of a file as plain values; those of comments alone are none.

    Raises
    ------
    InvalidInputError
        The file cannot be read, or a document is neither JSON nor YAML as `yaml_json` has it; lines
        are those of the file.
    """
    return documents_of(load_text(path), os.fspath(path))


def documents_of(text: str, file: str) -> list[Any]:
    """Return all documents of the text of a file; as `load_documents` does."""
    between = _YAML
    if text.lstrip()[:1] in ("{", "["):
        with suppress(InvalidInputError):
            return [parse_values(text, file)]
        between = _JSON
    cuts = [at for found in between.finditer(text) for at in found.span()]
    documents = []
    for begin, end in zip([0, *cuts[1::2]], [*cuts[::2], len(text)], strict=True):
        part = text[begin:end]
        if not _SAYS_SOMETHING.search(part):
            continue
        try:
            documents.append(parse_values(part, file))
        except InvalidInputError:
            parse_values("\n" * text.count("\n", 0, begin) + part, file)
            raise
    return documents
