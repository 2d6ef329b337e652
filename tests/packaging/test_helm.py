"""The Helm chart: what it renders fits Kubernetes and the product, and what cannot be served is refused.

Without helm or kubeconform these tests are skipped; ``make deploy-check`` installs both.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from mainstem.addresses import is_loopback, parse_address
from tests.packaging.command_lines import DEPLOY, HEALTH_PATH, ROOT, parsed

CHART = DEPLOY / "helm" / "mainstem"
TOOLS = ROOT / ".cache" / "deploy-tools"
SECURED = ("--set=tls.secretName=tls", "--set=admin.secretName=admin", "--set=http.tokens=x")
INSECURE = ("--set=insecure=true",)
APP = (*SECURED, "--set=app.configMapName=app", "--set=serviceMonitor.enabled=true")
_S_MAX = 60


def _tool(name: str) -> str:
    found = shutil.which(name, path=f"{TOOLS}{os.pathsep}{os.environ['PATH']}")
    if found is None:
        pytest.skip(f"{name} is not installed; make deploy-check installs it")
    return found


def _run(*argv: str, given: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(argv, input=given, capture_output=True, text=True, timeout=_S_MAX, check=False)


def _rendered(*options: str) -> str:
    done = _run(_tool("helm"), "template", "m", str(CHART), "--namespace", "logs", *options)
    assert done.returncode == 0, done.stderr
    return done.stdout


def _pod(*options: str) -> dict[str, Any]:
    documents = [each for each in yaml.safe_load_all(_rendered(*options)) if each]
    (workload,) = [each for each in documents if each["kind"] == "StatefulSet"]
    assert workload["spec"]["replicas"] == 1
    return dict(workload["spec"]["template"]["spec"])


def _container(*options: str) -> dict[str, Any]:
    (container,) = _pod(*options)["containers"]
    return dict(container)


def test_the_default_values_fit_their_schema() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    jsonschema.validate(values, schema)
    assert set(values) <= set(schema["properties"])
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    assert chart["appVersion"] == version("mainstem")


@pytest.mark.parametrize("options", [SECURED, INSECURE, APP], ids=["secured", "insecure", "app"])
def test_helm_and_kubernetes_accept_the_chart(options: tuple[str, ...]) -> None:
    lint = _run(_tool("helm"), "lint", "--strict", str(CHART), *options)
    assert lint.returncode == 0, lint.stdout + lint.stderr
    schemas = TOOLS / "schemas"
    kubeconform = _tool("kubeconform")
    if not schemas.is_dir():
        pytest.skip("the schemas of Kubernetes are not there; make deploy-check writes them")
    location = f"{schemas}/{{{{.ResourceKind}}}}{{{{.KindSuffix}}}}.json"
    argv = [kubeconform, "-strict", "-summary", "-skip=ServiceMonitor", "-schema-location", location]
    done = _run(*argv, given=_rendered(*options))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Invalid: 0, Errors: 0" in done.stdout


def test_a_secured_node_listens_beyond_the_pod_with_tls_and_users_only() -> None:
    container = _container(*SECURED, "--set=settings.num\\.partitions=4")
    options = parsed(container["args"])
    inside, outside = options["listen"].split(",")
    assert is_loopback(parse_address(inside).host)
    assert outside.startswith("SASL_SSL://")
    assert not options["insecure"]
    assert "num.partitions=4" in options["settings"]
    assert None not in (options["http_tokens"], options["http_tls_cert"], options["http_tls_key"])
    mounted = {each["mountPath"] for each in container["volumeMounts"]}
    assert {str(Path(options[name]).parent) for name in ("http_tokens", "http_tls_cert", "http_tls_key")} <= mounted
    assert container["readinessProbe"]["httpGet"] == {"path": HEALTH_PATH, "port": "http", "scheme": "HTTPS"}
    for probe in ("startupProbe", "livenessProbe"):
        program, *words = container[probe]["exec"]["command"]
        assert program == "mainstem"
        parsed(words)


@pytest.mark.parametrize("options", [SECURED, INSECURE, APP], ids=["secured", "insecure", "app"])
def test_ports_and_addresses_agree(options: tuple[str, ...]) -> None:
    container = _container(*options)
    given = parsed(container["args"])
    listens = {parse_address(part.rpartition("://")[2]).port for part in (*given["listen"].split(","), given["http"])}
    assert {each["containerPort"] for each in container["ports"]} <= listens
    (advertised,) = [each for each in given["settings"] if each.startswith("advertised.listeners=")]
    assert parse_address(advertised.rpartition("://")[2]) == (
        "m.logs.svc.cluster.local",
        container["ports"][0]["containerPort"],
    )


def test_pods_are_restricted() -> None:
    pod = _pod(*SECURED)
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in (*pod["containers"], *pod["initContainers"]):
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ((), "tls.secretName, admin.secretName and http.tokens"),
        ((*SECURED, "--set=replicaCount=3"), "replicaCount is 3: Mainstem is one node"),
        ((*SECURED, "--set=insecure=true"), "insecure=true serves without TLS"),
        ((*INSECURE, "--set=app.configMapName=a"), "an App is served with TLS and users only"),
        ((*SECURED, "--set=replicas=1"), "replicas"),
        ((*SECURED, "--set=podDisruptionBudget.maxUnavailable=2"), "maxUnavailable"),
    ],
)
def test_what_cannot_be_served_is_refused(options: tuple[str, ...], reason: str) -> None:
    done = _run(_tool("helm"), "template", "m", str(CHART), *options)
    assert done.returncode != 0
    assert reason in done.stderr
