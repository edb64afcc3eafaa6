"""Chart, manifests, units, alert rules and SBOM.

`make test-deploy` checks them with Helm's library, the schemas of Kubernetes, systemd and
Prometheus.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from tools import licenses

import opentill
from opentill.config import SETTINGS

TOP: Final = Path(__file__).parents[2]
PYTHON: Final = TOP / ".venv-deploy" / "bin" / "python"
UNITS: Final = sorted((TOP / "deploy" / "systemd").glob("*.service"))
MANIFESTS: Final[list[dict[str, Any]]] = list(
    yaml.safe_load_all((TOP / "deploy/kubernetes/opentill.yaml").read_text())
)
PODS: Final = {"Deployment", "Job"}
deploy: Final = pytest.mark.deploy


def _run(program: str, *words: str) -> str:
    """Run a program in the environment of `make test-deploy`."""
    process = subprocess.run(
        [PYTHON, "-c", program, *words], cwd=TOP, capture_output=True, text=True, check=False
    )
    assert process.returncode == 0, process.stderr
    return process.stdout


def _containers(manifest: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    pod = manifest["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    return pod, container


# ── in every run of the tests ────────────────────────────────────────────────────────────────────


def test_the_manifests_have_all_objects_of_a_deployment() -> None:
    objects = sorted((manifest["kind"], manifest["metadata"]["name"]) for manifest in MANIFESTS)
    assert objects == [
        ("Deployment", "opentill-server"),
        ("Deployment", "opentill-worker"),
        ("Job", "opentill-migrate"),
        ("NetworkPolicy", "opentill"),
        ("PodDisruptionBudget", "opentill-server"),
        ("PodDisruptionBudget", "opentill-worker"),
        ("Service", "opentill"),
    ]


@pytest.mark.parametrize(
    "manifest",
    [manifest for manifest in MANIFESTS if manifest["kind"] in PODS],
    ids=lambda manifest: manifest["metadata"]["name"],
)
def test_pods_have_no_more_rights_than_they_need(manifest: dict[str, Any]) -> None:
    pod, container = _containers(manifest)
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["automountServiceAccountToken"] is False
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert container["resources"]["limits"]["memory"]
    assert container["image"] == f"opentill:{opentill.__version__}"
    environ = {variable["name"]: variable["value"] for variable in container["env"]}
    names = {name for name in environ if not name.startswith("OPENTILL_GATEWAY_")}
    assert names <= _setting_names()
    drain = float(environ["OPENTILL_DRAIN_DELAY_S"]) + float(environ["OPENTILL_DRAIN_TIMEOUT_S"])
    if manifest["kind"] == "Deployment":
        assert pod["terminationGracePeriodSeconds"] >= drain + 10
        labels = manifest["spec"]["template"]["metadata"]["labels"]
        assert manifest["spec"]["selector"]["matchLabels"].items() <= labels.items()


def test_the_server_has_probes_and_the_service_selects_it() -> None:
    by_name = {(manifest["kind"], manifest["metadata"]["name"]): manifest for manifest in MANIFESTS}
    server = by_name["Deployment", "opentill-server"]
    _, container = _containers(server)
    assert container["livenessProbe"]["httpGet"]["path"] == "/healthz"
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
    selector = by_name["Service", "opentill"]["spec"]["selector"]
    assert selector.items() <= server["spec"]["template"]["metadata"]["labels"].items()


def test_logins_are_stored_where_containers_can_write() -> None:
    """The root of a container is read-only; logins are lost with the container's memory."""
    (home,) = re.findall(r"XDG_CONFIG_HOME=(\S+)", (TOP / "Dockerfile").read_text())
    folder = str(Path(home).parent)
    compose = yaml.safe_load((TOP / "compose.yaml").read_text())
    for service in ("opentill", "migrate"):
        assert compose["services"][service]["read_only"]
        assert folder in compose["services"][service]["tmpfs"]
    for manifest in MANIFESTS:
        if manifest["kind"] in PODS:
            pod, container = _containers(manifest)
            (name,) = [m["name"] for m in container["volumeMounts"] if m["mountPath"] == folder]
            assert [v for v in pod["volumes"] if v["name"] == name and "emptyDir" in v]


def test_the_instructions_for_compose_name_the_version_that_supports_wait() -> None:
    recipe = (TOP / "docs" / "recipes" / "run-containers.md").read_text()
    assert "Docker Compose 2.7.0 or newer" in recipe
    head = (TOP / "compose.yaml").read_text().partition("x-opentill")[0]
    check, _, after = head.partition("up --detach --wait")
    assert after
    assert "docker compose version --short # 2.7.0 or newer" in check


def test_the_image_has_labels_with_version_and_license() -> None:
    text = (TOP / "Dockerfile").read_text()
    labels = dict(re.findall(r'org\.opencontainers\.image\.(\w+)="([^"]+)"', text))
    assert labels["version"] == opentill.__version__
    assert labels["licenses"] == "Apache-2.0"
    chart = yaml.safe_load((TOP / "deploy/helm/opentill/Chart.yaml").read_text())
    assert chart["appVersion"] == opentill.__version__


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_a_unit_sets_only_existing_settings(unit: Path) -> None:
    text = unit.read_text() + (TOP / "deploy/systemd/opentill.env").read_text()
    names = set(re.findall(r"^(?:Environment=)?(OPENTILL_\w+)=", text, re.MULTILINE))
    assert names <= _setting_names()


def _setting_names() -> set[str]:
    return {row.name for row in SETTINGS} | {f"{row.name}_FILE" for row in SETTINGS if row.secret}


def test_a_command_that_root_runs_has_the_settings_of_the_units(tmp_path: Path) -> None:
    folder = TOP / "deploy" / "systemd"
    program = tmp_path / "program"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m opentill "$@"\n')
    program.chmod(0o755)
    etc = tmp_path / "etc"
    etc.mkdir()
    quoted = "OPENTILL_OPERATOR_NAME='Tea & $HOME'\n"
    (etc / "opentill.env").write_text((folder / "opentill.env").read_text() + quoted)
    (etc / "database_url").write_text("postgresql://opentill@db.example/opentill\n")
    for name in ("secret_key", "metrics_token", "secret_key.old", "gateway_stripe_secret_key"):
        (etc / name).write_text(f"{name * 8}\n")
    (etc / "gateway_stripe_webhook_secret").write_text("whsec_" + "a" * 32)
    script = (folder / "opentill").read_text().replace("/etc/opentill", str(etc))
    command = tmp_path / "opentill"
    command.write_text(script.replace("/opt/opentill/.venv/bin/opentill", str(program)))
    command.chmod(0o755)
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": str(TOP / "src")}
    process = subprocess.run(
        [command, "settings", "--json"], env=environ, capture_output=True, text=True, check=False
    )
    assert (process.returncode, process.stderr) == (0, "")
    settings = {row["variable"]: row["value"] for row in json.loads(process.stdout)}
    assert settings["OPENTILL_PUBLIC_URL"] == "https://pay.example.com"
    assert settings["OPENTILL_GATEWAYS"] == "stripe"
    assert settings["OPENTILL_OPERATOR_NAME"] == "Tea & $HOME"
    for name in ("DATABASE_URL", "SECRET_KEY", "METRICS_TOKEN", "GATEWAY_STRIPE_SECRET_KEY"):
        assert settings[f"OPENTILL_{name}"] == "(set)"


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_restarting_the_migration_stops_no_other_unit(unit: Path) -> None:
    """With ``Requires`` instead of ``Wants``, restarting the migration would stop the server."""
    lines = unit.read_text().splitlines()
    directives = {line.partition("=")[0] for line in lines if "opentill-migrate.service" in line}
    assert directives == (set() if unit.stem == "opentill-migrate" else {"After", "Wants"})


# ── in `make test-deploy` ────────────────────────────────────────────────────────────────────────


@deploy
def test_helm_finds_no_error_in_the_chart() -> None:
    program = (
        "import json, helm_python; print(json.dumps(helm_python.lint('deploy/helm/opentill')))"
    )
    report = json.loads(_run(program))
    assert report["errors"] == []
    assert [message["error"] for message in report["messages"]] == ["icon is recommended"]


@deploy
def test_the_manifests_are_rendered_from_the_chart() -> None:
    rendered = _run("from tools import manifests; print(manifests.format_manifests(), end='')")
    assert rendered == (TOP / "deploy/kubernetes/opentill.yaml").read_text(), "run: make manifests"


@deploy
def test_other_values_are_rendered_and_invalid_ones_refused() -> None:
    program = """
import json, sys, yaml
from tools import manifests
values = json.loads(sys.argv[1])
texts = manifests.render(values).values()
print(json.dumps([each for text in texts for each in yaml.safe_load_all(text) if each]))
"""
    values = {
        "server": {"replicas": 5},
        "networkPolicy": {"enabled": False},
        "settings": {"OPENTILL_LOG_LEVEL": "debug"},
        "tracing": {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"},
    }
    objects = {
        (manifest["kind"], manifest["metadata"]["name"]): manifest
        for manifest in json.loads(_run(program, json.dumps(values)))
    }
    assert ("NetworkPolicy", "opentill") not in objects
    server = objects["Deployment", "opentill-server"]
    _, container = _containers(server)
    environ = {variable["name"]: variable["value"] for variable in container["env"]}
    assert environ["OPENTILL_LOG_LEVEL"] == "debug"
    assert environ["OTEL_EXPORTER_OTLP_ENDPOINT"] == "http://collector:4318"
    assert server["spec"]["replicas"] == 5
    for invalid in ({"server": {"replicas": 0}}, {"settings": {"PORT": "1"}}, {"servers": {}}):
        with pytest.raises(AssertionError, match="Error"):
            _run(program, json.dumps(invalid))


@deploy
@pytest.mark.parametrize("version", ["1.29", "1.34"])
def test_the_manifests_conform_to_the_schemas_of_kubernetes(version: str) -> None:
    program = """
import sys, yaml, kubernetes_validate
for manifest in yaml.safe_load_all(open("deploy/kubernetes/opentill.yaml")):
    kubernetes_validate.validate(manifest, sys.argv[1], strict=True)
    print(manifest["kind"])
"""
    assert len(_run(program, version).split()) == len(MANIFESTS)


@deploy
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_systemd_accepts_the_units_and_rates_them_secure(unit: Path, tmp_path: Path) -> None:
    for other in UNITS:  # replace the units' program, which does not exist on this machine
        text = other.read_text().replace("/opt/opentill/.venv/bin/opentill", sys.executable)
        (tmp_path / other.name).write_text(text)
    words = ["verify", "--man=no", "--recursive-errors=no", str(tmp_path / unit.name)]
    verified = subprocess.run(
        ["systemd-analyze", *words], capture_output=True, text=True, check=False
    )
    assert (verified.returncode, verified.stderr) == (0, "")
    words = ["security", "--offline=true", "--threshold=15", "--no-pager", str(unit)]
    process = subprocess.run(
        ["systemd-analyze", *words], capture_output=True, text=True, check=False
    )
    assert process.returncode == 0, process.stdout[-2000:]


@deploy
def test_prometheus_accepts_the_alert_rules_and_they_fire() -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("no promtool; Debian: apt-get install prometheus")
    folder = TOP / "deploy" / "prometheus"
    for words in (("check", "rules", "alerts.yml"), ("test", "rules", "alerts_test.yml")):
        process = subprocess.run(
            [promtool, *words], cwd=folder, capture_output=True, text=True, check=False
        )
        assert process.returncode == 0, process.stdout + process.stderr


@deploy
def test_the_sbom_lists_every_package_of_the_lock_file(tmp_path: Path) -> None:
    target = tmp_path / "sbom.json"
    (line,) = re.findall(r"cyclonedx-py ((?:.*\\\n)?.*)", (TOP / "Makefile").read_text())
    words = line.replace("\\\n", " ").replace("dist/opentill.cdx.json", str(target)).split()
    process = subprocess.run(
        [PYTHON.with_name("cyclonedx-py"), *words],
        cwd=TOP, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    licenses.add_to_sbom(target)  # `make sbom` does this afterwards
    sbom = json.loads(target.read_text())
    assert all(component["licenses"] for component in sbom["components"])
    assert (sbom["bomFormat"], sbom["metadata"]["component"]["name"]) == ("CycloneDX", "opentill")
    lock = (TOP / "requirements.lock").read_text()
    pinned = set(re.findall(r"^([a-z0-9._-]+)==(\S+)", lock, re.MULTILINE))
    components = {(component["name"], component["version"]) for component in sbom["components"]}
    assert components == pinned
