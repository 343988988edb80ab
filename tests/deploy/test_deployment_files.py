"""Files of `deploy/`: valid for those who read them, and true to the command line."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from configparser import RawConfigParser
from pathlib import Path

import kubernetes_validate
import pytest
import typer
import yaml

from placewright.cli.commands import app_with
from placewright.instances.converters import READ_KINDS
from placewright.live.serve.app import make_app
from placewright.live.serve.service import Settings

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
SERVE = DEPLOY / "kubernetes" / "serve.yaml"
UNIT = DEPLOY / "systemd" / "placewright-serve.service"
WATCH = DEPLOY / "systemd" / "placewright-watch.service"
CONTAINER = (DEPLOY / "Containerfile").read_text()
OBJECTS = list(yaml.safe_load_all(SERVE.read_text()))
FOLLOWS = DEPLOY / "kubernetes" / "watch.yaml"
FOLLOWING = list(yaml.safe_load_all(FOLLOWS.read_text()))
OPTIONS = {
    name
    for parameter in typer.main.get_command(app_with()).commands["serve"].params
    for name in parameter.opts
}


def of_kind(kind):
    (found,) = [one for one in OBJECTS if one["kind"] == kind]
    return found


def options_of(words):
    return {word.partition("=")[0] for word in words if word.startswith("--")}


@pytest.mark.parametrize("document", [*OBJECTS, *FOLLOWING], ids=lambda one: one["kind"])
def test_objects_follow_the_schemas_of_kubernetes(document):
    version = kubernetes_validate.latest_version()
    kubernetes_validate.validate(document, version, strict=True)


@pytest.mark.parametrize(("file", "objects"), [(SERVE, OBJECTS), (FOLLOWS, FOLLOWING)])
def test_kubectl_reads_all_objects(file, objects):
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("needs kubectl")
    words = [kubectl, "label", "--local", "-f", str(file), "read=yes", "-o", "name"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert len(done.stdout.split()) == len(objects)


def test_the_service_has_no_rights_in_the_cluster():
    assert not [one for one in OBJECTS if "Role" in one["kind"]]
    pod = of_kind("Deployment")["spec"]["template"]["spec"]
    assert pod["automountServiceAccountToken"] is False
    assert of_kind("ServiceAccount")["automountServiceAccountToken"] is False
    (container,) = pod["containers"]
    assert container["securityContext"]["readOnlyRootFilesystem"]
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert of_kind("NetworkPolicy")["spec"]["egress"] == []


def test_the_watch_reads_what_is_read_and_writes_events_alone():
    (role,) = [one for one in FOLLOWING if one["kind"] == "ClusterRole"]
    *reads, writes = role["rules"]
    assert all(rule["verbs"] == ["get", "list", "watch"] for rule in reads)
    assert (writes["resources"], writes["verbs"]) == (["events"], ["create", "patch"])
    allowed = {
        (group, one) for rule in reads for group in rule["apiGroups"] for one in rule["resources"]
    }
    plurals = {
        "Topology": "topologies",
        "PriorityClass": "priorityclasses",
        "DeviceClass": "deviceclasses",
        "RuntimeClass": "runtimeclasses",
        "WorkloadPriorityClass": "workloadpriorityclasses",
    }
    for kind in READ_KINDS:
        assert (kind.group, plurals.get(kind.name, f"{kind.name.lower()}s")) in allowed


def test_commands_have_the_options_of_the_verb():
    (container,) = of_kind("Deployment")["spec"]["template"]["spec"]["containers"]
    exec_start = re.search(r"^ExecStart=(.*)$", UNIT.read_text(), re.MULTILINE)
    assert exec_start is not None
    words = shlex.split(exec_start[1])
    (image,) = re.findall(r"^CMD (.*)$", CONTAINER, re.MULTILINE)
    for command in (container["args"], words, yaml.safe_load(image)):
        assert "serve" in command
        assert options_of(command)
        assert options_of(command) <= OPTIONS


def test_kube_scheduler_is_sent_to_paths_that_there_are():
    (extender,) = yaml.safe_load((DEPLOY / "kubernetes" / "kube-scheduler.yaml").read_text())[
        "extenders"
    ]
    assert extender["nodeCacheCapable"]
    base = "/" + extender["urlPrefix"].split("/", 3)[3]
    wanted = {
        f"{base}/{extender[verb]}" for verb in ("filterVerb", "prioritizeVerb", "preemptVerb")
    }
    paths = {getattr(route, "path", "") for route in make_app(Settings(token="")).routes}
    assert wanted <= paths
    known = {"urlPrefix", "filterVerb", "prioritizeVerb", "preemptVerb", "weight"}
    assert set(extender) == known | {
        "nodeCacheCapable",
        "managedResources",
        "enableHTTPS",
        "tlsConfig",
    }


@pytest.mark.parametrize("path", [UNIT, WATCH], ids=lambda path: path.stem)
def test_systemd_accepts_the_unit(tmp_path, path):
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("needs systemd-analyze")
    unit = tmp_path / path.name
    unit.write_text(re.sub(r"/opt/placewright/bin/\w+", "/bin/true", path.read_text()))
    done = subprocess.run([analyze, "verify", unit], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Unknown" not in done.stderr


def test_the_unit_is_hardened():
    unit = RawConfigParser(strict=True)
    unit.optionxform = str
    unit.read_string(UNIT.read_text())
    service = dict(unit["Service"])
    for name in ("DynamicUser", "NoNewPrivileges", "ProtectHome", "PrivateTmp"):
        assert service[name] == "yes"
    assert service["ProtectSystem"] == "strict"
    assert service["CapabilityBoundingSet"] == ""


def test_the_image_has_all_packages():
    copied = {
        word.rstrip("/")
        for line in re.findall(r"^COPY (?!--from)(.*) \S+$", CONTAINER, re.MULTILINE)
        for word in line.split()
    }
    assert all((ROOT / name).exists() for name in copied)
    folders = re.findall(
        r'^"?placewright[.\w]*"? = "([\w/]+)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE
    )
    assert {folder.partition("/")[0] for folder in folders} <= copied
