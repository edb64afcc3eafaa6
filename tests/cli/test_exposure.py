"""Findings about test mode, proxies and the database connection, by doctor and serve."""

import io
import json
import re
import socket
from pathlib import Path

import pytest

from opentill import config
from opentill.cli import exposure
from opentill.core import log
from opentill.http import middleware
from support.commands import REFUSED, Commands, opentill

__all__ = ["opentill"]

TOP = Path(__file__).parents[2]

EXTERNAL = {
    "OPENTILL_SECRET_KEY": "k" * 32,
    "OPENTILL_DATABASE_URL": "postgresql://u:canary@db.example/x?sslmode=verify-full",
}
HTTPS = {"OPENTILL_PUBLIC_URL": "https://pay.example"}

PROXIES = [
    # Each row: environment, level of the finding, part of its text.
    ({}, "ok", "none"),
    (HTTPS, "warn", "share one rate limit"),
    (HTTPS | {"OPENTILL_TRUSTED_PROXIES": "10.0.0.7"}, "ok", "believed of 10.0.0.7"),
    (HTTPS | {"OPENTILL_TRUSTED_PROXIES": "10.0.0.0/8,fc00::/7,192.0.2.0/24"}, "ok", "believed"),
    (HTTPS | {"OPENTILL_TRUSTED_PROXIES": "0.0.0.0/0"}, "fail", "has 0.0.0.0/0: everybody"),
    (HTTPS | {"OPENTILL_TRUSTED_PROXIES": "10.0.0.7,::/0"}, "fail", "has ::/0: everybody"),
    ({"OPENTILL_TRUSTED_PROXIES": "0.0.0.0/1,128.0.0.0/1"}, "fail", "0.0.0.0/1, 128.0.0.0/1"),
    ({"OPENTILL_TRUSTED_PROXIES": "2000::/3"}, "fail", "2000::/3"),
]


@pytest.mark.parametrize(("environ", "level", "text"), PROXIES)
def test_missing_or_too_wide_trusted_proxies_are_reported(
    environ: dict[str, str], level: str, text: str
) -> None:
    finding = exposure.proxies(config.load(environ))
    assert (finding.level, text in finding.text) == (level, True), finding


TEST_MODE = [
    # Each row: environment, level of the finding ("": no finding).
    ({}, ""),
    (EXTERNAL, "fail"),
    (HTTPS, "fail"),
    (EXTERNAL | {"OPENTILL_SANDBOX": "yes"}, "warn"),
    (HTTPS | {"OPENTILL_SANDBOX": "yes"}, "warn"),
    (EXTERNAL | HTTPS | {"OPENTILL_GATEWAYS": "stripe"}, ""),
]


@pytest.mark.parametrize(("environ", "level"), TEST_MODE)
def test_test_mode_is_reported(environ: dict[str, str], level: str) -> None:
    finding = exposure.test_mode(config.load(environ))
    assert (finding.level if finding else "") == level
    assert finding is None or "OPENTILL_SANDBOX=yes" in finding.text


TLS = [
    # Each row: address of the database, PGSSLMODE, level and part of the text of the finding.
    ("postgresql://u:canary@db.example/x", "", "warn", "sslmode prefer: the connection may be"),
    ("postgresql://u:canary@db.example/x?sslmode=disable", "", "warn", "is not encrypted"),
    ("postgresql://u:canary@db.example/x?sslmode=require", "", "warn", "can pose as"),
    ("postgresql://u:canary@db.example/x?sslmode=verify-ca", "", "warn", "any certificate"),
    ("postgresql://u:canary@db.example/x?sslmode=verify-full", "", "ok", "verify-full"),
    ("postgresql://u:canary@db.example/x", "verify-full", "ok", "verify-full"),
    ("postgresql://u:canary@127.0.0.1:5432/x", "", "ok", "on this machine"),
    ("postgresql://u:canary@[::1]:5432/x", "", "ok", "on this machine"),
    ("postgresql://u:canary@localhost/x", "", "ok", "on this machine"),
    ("postgresql:///x?host=/run/postgresql", "", "ok", "on this machine"),
    ("postgresql://u:canary@127.0.0.1,db.example/x", "", "warn", "may be unencrypted"),
    ("postgresql://u:canary@localhost.example/x", "", "warn", "may be unencrypted"),
    ("postgresql://u:canary@[2001:db8::1]/x", "", "warn", "may be unencrypted"),
]


@pytest.mark.parametrize(("url", "mode", "level", "text"), TLS)
def test_the_encryption_of_the_database_connection_is_checked(
    monkeypatch: pytest.MonkeyPatch, url: str, mode: str, level: str, text: str
) -> None:
    monkeypatch.setenv("PGSSLMODE", mode)
    if not mode:
        monkeypatch.delenv("PGSSLMODE")
    settings = config.load(EXTERNAL | {"OPENTILL_DATABASE_URL": url})
    (finding,) = exposure.database_tls(settings)
    assert (finding.level, text in finding.text) == (level, True), finding
    assert "canary" not in finding.text
    both = EXTERNAL | {"OPENTILL_DATABASE_READ_URL": url}
    assert [each.level for each in exposure.database_tls(config.load(both))] == ["ok", level]


# Each row: address of the peer, X-Forwarded-For, whether the peer is logged.
PEERS = [
    ("10.0.0.9", None, False),
    ("10.0.0.7", "198.51.100.1", False),
    ("10.0.0.9", "198.51.100.1", True),
]


@pytest.mark.parametrize(("peer", "forwarded", "is_logged"), PEERS)
async def test_an_untrusted_proxy_is_logged_once_a_minute(
    monkeypatch: pytest.MonkeyPatch, peer: str, forwarded: str | None, is_logged: bool
) -> None:
    lines = io.StringIO()
    log.configure("warning", stream=lines)
    now = 1000.0
    monkeypatch.setattr(middleware.time, "monotonic", lambda: now)

    async def app(*_: object) -> None:
        return

    trusted = config.load({"OPENTILL_TRUSTED_PROXIES": "10.0.0.7"}).trusted_proxies
    request_middleware = middleware.RequestMiddleware(app, app, trusted)
    headers = [] if forwarded is None else [(b"x-forwarded-for", forwarded.encode())]
    scope = {"type": "http", "method": "GET", "path": "/", "headers": headers, "client": (peer, 1)}
    for seconds in (0, 1, 58, 2, 30, 20):
        now += seconds
        await request_middleware(dict(scope), app, app)
    logged = [json.loads(line) for line in lines.getvalue().splitlines()]
    assert [line["peer"] for line in logged] == ([peer] * 2 if is_logged else [])
    assert all("OPENTILL_TRUSTED_PROXIES" in line["hint"] for line in logged)
    assert "198.51.100.1" not in lines.getvalue()


# Each row: settings, and the level of doctor's finding by subject.
FINDINGS = [
    (HTTPS, {"proxies": "warn", "test mode": "warn", "tls": "ok"}),
    ({"OPENTILL_TRUSTED_PROXIES": "0.0.0.0/0"}, {"proxies": "fail"}),
]


@pytest.mark.parametrize(("environ", "levels"), FINDINGS)
def test_doctor_reports_all_of_these_findings(
    opentill: Commands, environ: dict[str, str], levels: dict[str, str]
) -> None:
    findings = json.loads(opentill.run("doctor", "--json", **environ).stdout)
    by_subject = {finding["subject"]: finding["level"] for finding in findings}
    assert {subject: by_subject.get(subject) for subject in levels} == levels


def test_serve_warns_that_every_client_is_a_trusted_proxy(opentill: Commands) -> None:
    with socket.socket() as other:  # occupies the port, so that serve fails after its checks
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = str(other.getsockname()[1])
        for proxies, is_warned in (("0.0.0.0/0", True), ("10.0.0.7", False)):
            environ = {"OPENTILL_PORT": port, "OPENTILL_TRUSTED_PROXIES": proxies}
            process = opentill.run("serve", **environ)
            assert process.returncode == REFUSED, process
            assert ("everybody is believed" in process.stderr.decode()) == is_warned, process


def test_compose_trusts_only_the_proxy_on_its_machine() -> None:
    text = (TOP / "compose.yaml").read_text()
    trusted = re.findall(r"^ +OPENTILL_TRUSTED_PROXIES: \$\{\w+:-(\S+)\}$", text, re.MULTILINE)
    assert trusted == re.findall(r"^ +gateway: (\S+)$", text, re.MULTILINE)
    finding = exposure.proxies(config.load(HTTPS | {"OPENTILL_TRUSTED_PROXIES": trusted[0]}))
    assert (finding.level, finding.text) == (
        "ok",
        f"X-Forwarded-For is believed of {trusted[0]}/32",
    )


@pytest.mark.parametrize("name", ["compose.yaml", "docs/recipes/run-containers.md"])
def test_documented_urls_of_remote_databases_use_verified_tls(name: str) -> None:
    text = (TOP / name).read_text()
    addresses = re.findall(r"postgresql://\S+@db\.example\.com\S*", text)
    assert addresses
    for url in addresses:
        (finding,) = exposure.database_tls(config.load(EXTERNAL | {"OPENTILL_DATABASE_URL": url}))
        assert finding.level == "ok", finding
