"""What commands check before they start, and how they report it, as real processes."""

import asyncio
import json
import signal
import socket
import subprocess
import sys
from pathlib import Path
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest

from cli.sites import TIMEOUT_S, Site, site, with_database, without_log
from support import pooler
from support.deployment import copy_directory
from support.pooler import connect

__all__ = ["site", "with_database"]

LATER = (
    "insert into schema_migrations (version, name, sha256, applied_at)"
    " values (9999, '9999_later', repeat('0', 64), 0)"
)


async def _execute(url: str, statement: str) -> None:
    connection = await connect(url)
    await connection.execute(statement)
    await connection.close()


def test_doctor_gives_advice(site: Site, migrated: Path) -> None:
    process = site.run_unforked("doctor", "--json")
    assert process.returncode == 1
    findings = {finding["subject"]: finding["text"] for finding in json.loads(process.stdout)}
    assert f"no OpenTill database in {site.data_dir}/postgres" in findings["database"]
    assert not site.data_dir.exists()
    copy_directory(migrated, site.data_dir)
    process = site.run("doctor", "--json")
    assert process.returncode == 0, process.stdout
    assert {finding["level"] for finding in json.loads(process.stdout)} == {"ok"}
    process = site.run(
        "doctor",
        OPENTILL_DATABASE_URL="postgresql://nobody@127.0.0.1:1/x",
        OPENTILL_SECRET_KEY="k" * 32,
        OPENTILL_PUBLIC_URL="http://pay.example",
    )
    assert process.returncode == 1
    lines = {line.split()[1]: line for line in process.stdout.splitlines()}
    assert "fail" in lines["database"]
    assert "OPENTILL_DATABASE_URL cannot be reached" in lines["database"]
    assert "https only" in lines["public"]
    assert "fail" in lines["test"]
    assert "OPENTILL_SANDBOX=yes" in lines["test"]


def test_an_old_schema_is_not_served(site: Site, empty_database_url: str) -> None:
    external = {
        "OPENTILL_DATABASE_URL": empty_database_url,
        "OPENTILL_SANDBOX": "yes",
        "OPENTILL_DB_PREPARED": pooler.prepared_setting(empty_database_url),
        "OPENTILL_SECRET_KEY": "k" * 32,
    }
    refused = site.run("serve", **external)
    assert refused.returncode == 2
    # On a busy machine, the command may first report that it waits for the database.
    lines = without_log(refused.stderr)
    (line,) = [line for line in lines if not line.endswith("; waiting for it")]
    assert "run `opentill migrate`" in line
    migrated = site.run("migrate", **external)
    assert migrated.stdout.startswith("applied 0001_schema\n")
    assert json.loads(site.run("migrate", "--json", **external).stdout) == {"applied": []}
    # The schema is newer than the program after a downgrade, and during an upgrade.
    asyncio.run(_execute(empty_database_url, LATER))
    assert site.run("migrate", **external).stdout == "nothing to do\n"
    checked = site.run("ledger", "check", **external)
    assert checked.returncode == 0
    warning = "of a newer OpenTill (it has 9999_later); this one runs with it"
    assert "\n".join(without_log(checked.stderr)).count(warning) == 1, checked.stderr
    findings = json.loads(site.run("doctor", "--json", **external).stdout)
    finding = next(finding for finding in findings if finding["subject"] == "database")
    assert finding["level"] == "warn"
    assert "9999_later" in finding["text"]
    asyncio.run(_execute(empty_database_url, "alter table secret_key rename to elsewhere"))
    refused = site.run("ledger", "check", **external)
    assert refused.returncode == 2
    line = without_log(refused.stderr)[-1]
    assert "OPENTILL_DATABASE_URL cannot be read: relation" in line, refused.stderr


def test_an_invalid_replica_url_is_refused_at_the_start(site: Site) -> None:
    for end in ("db/x?sslmode=verify-full", "db/x?sslmode=hunter2", f"{'a' * 64}/x"):
        refused = site.run(
            "serve",
            OPENTILL_DATABASE_URL="postgresql://u@127.0.0.1:1/x",
            OPENTILL_DATABASE_READ_URL=f"postgresql://u:hunter2@{end}",
            OPENTILL_SECRET_KEY="k" * 32,
            OPENTILL_SANDBOX="yes",
            HOME="/proc/nowhere",
        )
        assert refused.returncode == 2
        (line,) = without_log(refused.stderr)
        assert line.startswith("opentill: the database of OPENTILL_DATABASE_READ_URL cannot be")
        assert "hunter2" not in line


@pooler.skip_if_pooled("the test creates the path of the database's socket")
def test_migrate_waits_for_the_database_and_needs_no_data_directory(
    site: Site, empty_database_url: str
) -> None:
    address = urlsplit(empty_database_url)
    folder = Path(parse_qs(address.query)["host"][0])
    socket_folder = site.data_dir.parent / "late"
    environ = site.environ | {
        "OPENTILL_DATABASE_URL": empty_database_url.replace(
            address.query, urlencode({"host": str(socket_folder), "port": "5432"})
        ),
        "OPENTILL_SECRET_KEY": "k" * 32,
        "OPENTILL_DATA_DIR": "/proc/nowhere",
    }
    with subprocess.Popen(
        [sys.executable, "-m", "opentill", "migrate"],
        env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as migrating:  # fmt: skip
        site.started.append(migrating)
        assert migrating.stderr is not None
        assert "cannot be reached" in (line := migrating.stderr.readline())
        assert line.endswith("; waiting for it\n")
        socket_folder.mkdir()
        (socket_folder / ".s.PGSQL.5432").symlink_to(folder / ".s.PGSQL.5432")
        output, _ = migrating.communicate(timeout=TIMEOUT_S)
    assert migrating.returncode == 0
    assert output.startswith("applied 0001_schema\n")


@pytest.mark.usefixtures("with_database")
def test_health_reports_readiness_and_is_not_logged(site: Site) -> None:
    health = site.run_unforked("health")
    assert (health.returncode, health.stderr) == (1, "")
    assert f"http://127.0.0.1:{site.port}/readyz: no response" in health.stdout
    process = site.start("serve")
    health = site.run_unforked("health")
    assert health.returncode == 0
    assert health.stdout == f'http://127.0.0.1:{site.port}/readyz: {{"status":"ready"}}\n'
    report = json.loads(site.run("health", "--json").stdout)
    assert report["ready"]
    assert site.get("/healthz")[0] == 200
    assert site.get("/nothing")[0] == 404
    process.send_signal(signal.SIGTERM)
    assert process.wait(TIMEOUT_S) == 0
    log = (site.data_dir.parent / "stderr.log").read_text()
    assert log.count('"event":"request"') == 1  # only the request with status 404 is logged


def test_health_imports_no_heavy_module(site: Site) -> None:
    code = "import sys; sys.argv = ['opentill', 'health']\nfrom opentill.__main__ import main\n"
    code += "try: main()\nfinally: print(*sys.modules)"
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, env=site.environ
    )
    assert process.returncode == 1
    heavy = {"typer", "starlette", "asyncpg", "uvicorn", "structlog", "pydantic", "http.client"}
    assert not heavy & set(process.stdout.split())


REFUSED = [
    # Each row: name, environment, part of the error.
    ("bad value", {"OPENTILL_PORT": "http"}, "a whole number from 1 to 65535"),
    ("data directory", {"OPENTILL_DATA_DIR": "/proc/nowhere"}, "OPENTILL_DATA_DIR"),
    ("test mode", {"OPENTILL_PUBLIC_URL": "https://pay.example"}, "OPENTILL_SANDBOX=yes"),
    ("short key", {"OPENTILL_SECRET_KEY": "k" * 31}, "openssl rand -hex 32"),
]


@pytest.mark.parametrize(
    ("environ", "text"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED]
)
def test_an_error_of_configuration_is_one_line(
    site: Site, environ: dict[str, str], text: str
) -> None:
    site.data_dir.parent.mkdir(exist_ok=True)
    refused = site.run("serve", **environ)
    assert refused.returncode == 2
    assert refused.stderr.startswith("opentill: ")
    assert text in refused.stderr
    assert refused.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "size", "count"),
    [(("--workers", "8"), "10", 100), (("--no-worker",), "50", 100), ((), "91", 91)],
)
def test_more_connections_than_the_embedded_database_has_are_refused(
    site: Site, words: tuple[str, ...], size: str, count: int
) -> None:
    site.data_dir.parent.mkdir(exist_ok=True)
    refused = site.run("serve", *words, OPENTILL_DB_POOL_SIZE=size)
    assert refused.returncode == 2
    assert f"are {count} database connections" in refused.stderr
    assert refused.stderr.count("\n") == 1


def test_a_misspelt_setting_is_a_warning(site: Site) -> None:
    """It cannot be an error, because orchestrators set variables that are named after services."""
    process = site.run("settings", OPENTILL_PROT="1")
    assert process.returncode == 0
    assert process.stderr == (
        "opentill: warning: OPENTILL_PROT is not a setting; did you mean OPENTILL_PORT?\n"
    )


def test_a_port_in_use_is_reported_in_one_line(site: Site) -> None:
    with socket.create_server(("127.0.0.1", site.port)):
        refused = site.run("serve")
    assert refused.returncode == 2
    assert f"cannot listen on 127.0.0.1 port {site.port}" in refused.stderr


def test_settings_are_listed_with_masked_secrets(site: Site) -> None:
    process = site.run("settings", "--json", OPENTILL_SECRET_KEY="canary" * 6)
    rows = {row["variable"]: row for row in json.loads(process.stdout)}
    assert rows["OPENTILL_PORT"]["value"] == str(site.port)
    assert rows["OPENTILL_SECRET_KEY"]["value"] == "(set)"
    assert "canary" not in process.stdout
    assert "OPENTILL_GATEWAYS" in site.run("settings").stdout


def test_help_is_fast_and_imports_no_heavy_module(site: Site) -> None:
    code = "import sys; sys.argv = ['opentill', '--help']\nfrom opentill.__main__ import main\n"
    code += "try: main()\nfinally: print(*sys.modules)"
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=site.environ
    )
    for word in ("serve", "worker", "sandbox", "migrate", "demo", "doctor", "settings"):
        assert f"\n  {word} " in process.stdout
    loaded = set(process.stdout.split())
    assert not loaded & {"starlette", "asyncpg", "uvicorn", "structlog", "prometheus_client"}
