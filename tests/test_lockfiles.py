"""The lock files pin the same versions of packages for production, tests and checks."""

import json
import re
from pathlib import Path
from typing import Final

TOP: Final = Path(__file__).parents[1]
LOCKS: Final = (
    "requirements.lock",
    "requirements-dev.lock",
    "requirements-opentelemetry.lock",
    "benchmarks/peers/requirements.lock",
    "tests/deploy/requirements.lock",
    "tests/generated/requirements.lock",
)


def _pins(name: str) -> dict[str, tuple[str, frozenset[str]]]:
    """Return each package of a lock file with its version and the digests of its files."""
    pins: dict[str, tuple[str, frozenset[str]]] = {}
    for block in re.split(r"\n(?=[a-z0-9])", (TOP / name).read_text()):
        pin = re.match(r"([a-z0-9][a-z0-9._-]*)==(\S+)", block)
        assert pin is not None, block[:80]
        pins[pin[1]] = pin[2], frozenset(re.findall(r"--hash=(sha256:[0-9a-f]{64})", block))
    return pins


def test_tests_run_with_the_versions_of_production() -> None:
    production, tested = _pins("requirements.lock"), _pins("requirements-dev.lock")
    assert {name: pin for name, pin in tested.items() if name in production} == production


def test_traces_only_add_packages_to_production() -> None:
    production, traced = _pins("requirements.lock"), _pins("requirements-opentelemetry.lock")
    tested = _pins("requirements-dev.lock")
    assert {name: pin for name, pin in traced.items() if name in production} == production
    assert {name: pin for name, pin in tested.items() if name in traced} == traced


def test_production_has_no_development_packages() -> None:
    production = set(_pins("requirements.lock"))
    assert {"asyncpg", "tzdata", "hatchling", "editables"} <= production
    tools = {"pytest", "mypy", "ruff", "pyright", "playwright", "schemathesis", "hypothesis"}
    assert tools <= set(_pins("requirements-dev.lock"))
    assert not production & (tools | {"localstripe", "coverage", "pip-audit", "nodeenv"})


def test_every_package_is_pinned_by_digest_without_a_url() -> None:
    for lock in LOCKS:
        assert all(digests for _, digests in _pins(lock).values()), lock
        assert "://" not in (TOP / lock).read_text(), lock


NODE_LOCKS: Final = (
    "clients/javascript/package-lock.json",
    "tests/browser/axe/package-lock.json",
    "tests/generated/node/package-lock.json",
)


def test_every_node_package_is_pinned_by_digest_without_a_url() -> None:
    for lock in NODE_LOCKS:
        packages = json.loads((TOP / lock).read_text())["packages"]
        own = packages.pop("")
        pins = (own.get("dependencies") or {}) | (own.get("devDependencies") or {})
        assert all(re.fullmatch(r"\d+\.\d+\.\d+", version) for version in pins.values()), lock
        for name, package in packages.items():
            assert package["integrity"].startswith("sha512-"), (lock, name)
            assert "resolved" not in package, (lock, name)
