"""Test mode, proxies and the way to the database: what doctor says, and serve logs."""

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

GIVEN = {
    "OPENTILL_SECRET_KEY": "k" * 32,
    "OPENTILL_DATABASE_URL": "postgresql://u:canary@db.example/x?sslmode=verify-full",
}
HTTPS = {"OPENTILL_PUBLIC_URL": "https://pay.example"}

PROXIES = [
    # environment, level, part of the text
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
def test_proxies_that_are_missing_or_are_everybody(
    environ: dict[str, str], level: str, text: str
) -> None:
    found = exposure.proxies(config.load(environ))
    assert (found.level, text in found.text) == (level, True), found


TEST_MODE = [
    # environment, level ("": nothing is said)
    ({}, ""),
    (GIVEN, "fail"),
    (HTTPS, "fail"),
    (GIVEN | {"OPENTILL_SANDBOX": "yes"}, "warn"),
    (HTTPS | {"OPENTILL_SANDBOX": "yes"}, "warn"),
    (GIVEN | HTTPS | {"OPENTILL_GATEWAYS": "stripe"}, ""),
]


@pytest.mark.parametrize(("environ", "level"), TEST_MODE)
def test_test_mode_is_reported(environ: dict[str, str], level: str) -> None:
    found = exposure.test_mode(config.load(environ))
    assert (found.level if found else "") == level
    assert found is None or "OPENTILL_SANDBOX=yes" in found.text


TLS = [
    # address, PGSSLMODE, level, part of the text
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
def test_the_way_to_the_database_is_looked_at(
    monkeypatch: pytest.MonkeyPatch, url: str, mode: str, level: str, text: str
) -> None:
    monkeypatch.setenv("PGSSLMODE", mode)
    if not mode:
        monkeypatch.delenv("PGSSLMODE")
    settings = config.load(GIVEN | {"OPENTILL_DATABASE_URL": url})
    (found,) = exposure.database_tls(settings)
    assert (found.level, text in found.text) == (level, True), found
    assert "canary" not in found.text
    both = GIVEN | {"OPENTILL_DATABASE_READ_URL": url}
    assert [one.level for one in exposure.database_tls(config.load(both))] == ["ok", level]


# peer, X-Forwarded-For, whether it is told of
PEERS = [
    ("10.0.0.9", None, False),
    ("10.0.0.7", "198.51.100.1", False),
    ("10.0.0.9", "198.51.100.1", True),
]


@pytest.mark.parametrize(("peer", "forwarded", "told"), PEERS)
async def test_a_proxy_that_is_not_trusted_is_logged_once_a_minute(
    monkeypatch: pytest.MonkeyPatch, peer: str, forwarded: str | None, told: bool
) -> None:
    lines = io.StringIO()
    log.configure("warning", stream=lines)
    now = 1000.0
    monkeypatch.setattr(middleware.time, "monotonic", lambda: now)

    async def nothing(*_: object) -> None:
        return

    trusted = config.load({"OPENTILL_TRUSTED_PROXIES": "10.0.0.7"}).trusted_proxies
    edge = middleware.RequestMiddleware(nothing, nothing, trusted)
    headers = [] if forwarded is None else [(b"x-forwarded-for", forwarded.encode())]
    scope = {"type": "http", "method": "GET", "path": "/", "headers": headers, "client": (peer, 1)}
    for seconds in (0, 1, 58, 2, 30, 20):
        now += seconds
        await edge(dict(scope), nothing, nothing)
    found = [json.loads(line) for line in lines.getvalue().splitlines()]
    assert [line["peer"] for line in found] == ([peer] * 2 if told else [])
    assert all("OPENTILL_TRUSTED_PROXIES" in line["hint"] for line in found)
    assert "198.51.100.1" not in lines.getvalue()


# settings, what doctor says of them: subject and level
ASKED = [
    (HTTPS, {"proxies": "warn", "test mode": "warn", "tls": "ok"}),
    ({"OPENTILL_TRUSTED_PROXIES": "0.0.0.0/0"}, {"proxies": "fail"}),
]


@pytest.mark.parametrize(("environ", "levels"), ASKED)
def test_doctor_looks_at_all_of_it(
    opentill: Commands, environ: dict[str, str], levels: dict[str, str]
) -> None:
    findings = json.loads(opentill.run("doctor", "--json", **environ).stdout)
    found = {finding["subject"]: finding["level"] for finding in findings}
    assert {subject: found.get(subject) for subject in levels} == levels


def test_a_server_that_believes_everybody_says_so_when_it_starts(opentill: Commands) -> None:
    with socket.socket() as taken:  # so that it only starts to
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        for proxies, said in (("0.0.0.0/0", True), ("10.0.0.7", False)):
            environ = {"OPENTILL_PORT": port, "OPENTILL_TRUSTED_PROXIES": proxies}
            done = opentill.run("serve", **environ)
            assert done.returncode == REFUSED, done
            assert ("everybody is believed" in done.stderr.decode()) == said, done


def test_compose_trusts_the_proxy_on_its_own_machine_and_nobody_else() -> None:
    text = (TOP / "compose.yaml").read_text()
    trusted = re.findall(r"^ +OPENTILL_TRUSTED_PROXIES: \$\{\w+:-(\S+)\}$", text, re.MULTILINE)
    assert trusted == re.findall(r"^ +gateway: (\S+)$", text, re.MULTILINE)
    found = exposure.proxies(config.load(HTTPS | {"OPENTILL_TRUSTED_PROXIES": trusted[0]}))
    assert (found.level, found.text) == ("ok", f"X-Forwarded-For is believed of {trusted[0]}/32")


@pytest.mark.parametrize("name", ["compose.yaml", "docs/recipes/run-containers.md"])
def test_a_database_elsewhere_is_shown_with_an_address_that_is_safe(name: str) -> None:
    text = (TOP / name).read_text()
    addresses = re.findall(r"postgresql://\S+@db\.example\.com\S*", text)
    assert addresses
    for url in addresses:
        (found,) = exposure.database_tls(config.load(GIVEN | {"OPENTILL_DATABASE_URL": url}))
        assert found.level == "ok", found
