"""Rules of this project that no linter checks."""

import ast
import re
from collections.abc import Callable
from pathlib import Path
from typing import Final

import opentill
from support.sources import nodes, tree

ROOT: Final = Path(opentill.__file__).parent
FILES: Final = sorted(ROOT.rglob("*.py"))
NAMES: Final = {path: str(path.relative_to(ROOT)) for path in FILES}
BANNED: Final = {
    "util",
    "utils",
    "helper",
    "helpers",
    "common",
    "base",
    "manager",
    "managers",
    "misc",
}
LONGEST: Final = 450


def files(rule: Callable[[Path], None]) -> Callable[[], None]:
    """Check every file in one test, which lists the files that break the rule."""

    def check_files() -> None:
        problems = []
        for path in FILES:
            try:
                rule(path)
            except AssertionError as error:
                problems.append(f"{NAMES[path]}: {str(error).splitlines()[0:1]}")
        assert problems == []

    check_files.__name__ = rule.__name__
    return check_files


@files
def test_no_module_has_a_generic_name(path: Path) -> None:
    assert not {path.stem, *path.relative_to(ROOT).parts[:-1]} & BANNED


@files
def test_a_file_has_a_bounded_length(path: Path) -> None:
    # A generated file may be longer: people edit its generator instead.
    if "\nGenerated from " in path.read_text():
        return
    assert len(path.read_text().splitlines()) <= LONGEST


@files
def test_a_module_has_a_docstring(path: Path) -> None:
    docstring = ast.get_docstring(tree(path))
    assert docstring
    assert docstring.splitlines()[0].endswith((".", "!", "?", ":", ","))


# Other modules than config.py that may read the environment, with the variables.
ENVIRONMENT: Final = {
    "cli/identity.py": "XDG_CONFIG_HOME, the folder of the user's saved login",
    "cli/exposure.py": "PGSSLMODE, which asyncpg reads",
    "cli/dumps.py": "PATH and PG… variables, for pg_dump and pg_restore",
    "cli/running.py": "PROMETHEUS_MULTIPROC_DIR, for its children",
    "core/metrics.py": "PROMETHEUS_MULTIPROC_DIR, for its children",
    "reference/samples.py": "none; its sample programs read one",
    "server/supervisor.py": "PROMETHEUS_MULTIPROC_DIR, for its children",
}


@files
def test_only_the_settings_read_the_environment(path: Path) -> None:
    text = path.read_text()
    # These modules may pass os.environ to config.py.
    if NAMES[path].startswith(("cli/", "healthcheck")):
        text = re.sub(r"config\.\w+\(os\.environ\)", "", text)
    reads = re.search(r"os\.(environ|getenv|putenv)\b|from os import .*environ", text)
    assert reads is None or NAMES[path] in ENVIRONMENT | {"config.py": ""}


# These modules compute with money, so no amount or rate in them may be a float.
MONEY: Final = re.compile(
    r"^(core/money|(ledger|orders|refunds|checkouts|products|disputes|payouts|merchants)/(?!.*test))"
)


@files
def test_no_float_is_used_with_money(path: Path) -> None:
    if not MONEY.match(NAMES[path]):
        return
    for node in nodes(path):
        assert not (isinstance(node, ast.Name) and node.id == "float"), f"line {node.lineno}"
        if isinstance(node, ast.Constant) and isinstance(node.value, float):
            line = path.read_text().splitlines()[node.lineno - 1]
            assert re.search(r"_S\b|_s\b|timeout|sleep", line), f"line {node.lineno}: {line}"
        assert not isinstance(node, ast.Div) or NAMES[path] in DIVISIONS, "a division"


DIVISIONS: Final = {"refunds/shares.py": "divides one Decimal rate by another"}

# Modules other than `queries` modules that may contain SQL, and why.
SQL_ELSEWHERE: Final = {
    "server/embedded/cluster.py": "creates the database in single-user mode, without a connection",
    "reconciliation/report.py": "uses a temporary SQLite file",
}
_SQL: Final = re.compile(  # matches SQL, which this project writes in lower case
    r"^\s*(select\s|insert\s+into\s|update\s+\w+\s+\w*\s*set\s|delete\s+from\s|with\s+\w+\s+as\s*\("
    r"|(create|alter|drop|lock)\s+(table|database|index)\s|set\s+(local|session|transaction)\s)"
)


@files
def test_only_queries_modules_contain_sql(path: Path) -> None:
    name = NAMES[path]
    if path.stem.endswith("queries") or name in SQL_ELSEWHERE or name.startswith("sandbox/"):
        return  # the sandbox bank is a separate application, with its own SQLite file
    for node in nodes(path):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            assert not _SQL.match(node.value), f"line {node.lineno}: {node.value[:60]}"


@files
def test_a_pattern_of_a_field_does_not_end_in_a_dollar_sign(path: Path) -> None:
    r"""``$`` also matches before a final line break, unlike ``\Z`` (http/schemas.py)."""
    for node in nodes(path):
        if isinstance(node, ast.keyword) and node.arg == "pattern":
            text = node.value.value if isinstance(node.value, ast.Constant) else ""
            assert not str(text).endswith("$"), f"line {node.value.lineno}"


@files
def test_only_the_command_line_prints(path: Path) -> None:
    if NAMES[path].startswith("cli/") or NAMES[path] == "__main__.py":
        return
    for node in nodes(path):
        printing = (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id == "print"
        )
        assert not printing, f"line {node.lineno}"


@files
def test_no_feature_imports_the_queries_of_another(path: Path) -> None:
    feature = path.relative_to(ROOT).parts[0]
    for node in nodes(path):
        if isinstance(node, ast.ImportFrom) and node.module:
            parts = node.module.split(".")
            is_other = parts[0] == "opentill" and len(parts) > 1 and parts[1] != feature
            names = {alias.name for alias in node.names}
            assert not (is_other and ("queries" in names or parts[-1] == "queries")), node.module


# Modules that may read a clock, and what for. All others get the time as a parameter.
CLOCKS: Final = {
    "http/operations.py": "now_ms, the clock of requests",
    "core/ids.py": "the time in an id",
    "epay/timestamps.py": "real time: timestamps of messages, which shops check",
    "http/middleware.py": "the duration of a request",
    "deposits/scanning.py": "real time: leases, and the age of blocks",
    "db/migrations.py": "the time at which a file was applied",
    "callbacks/reading.py": "real time: the age of a signature of another machine",
    "client/retries.py": "real time on a merchant's machine: the date in Retry-After",
    "client/signatures.py": "real time on a merchant's machine: the age of a signature",
    "health.py": "real time: the age of the last check of the books",
    "integrity/rules.py": "real time: the age of events, by the time in their ids",
    "integrity/scheduler.py": "real time: the pause between two checks",
    "reconciliation/fetching.py": "real time: the clock of the sandbox bank",
    "people/second_factor.py": "real time: the codes of an authenticator",
    "worker.py": "the duration of a job",
    "webhooks/catchup.py": "real time: numbers above those of a restored backup",
    "webhooks/held_leases.py": "real time: leases, which workers compare with their clocks",
    "webhooks/sending.py": "real time: the time of a signature, which the receiver checks",
}


@files
def test_only_listed_modules_read_a_clock(path: Path) -> None:
    name = NAMES[path]
    if name in CLOCKS or name.startswith(
        ("cli/", "sandbox/", "core/", "db/", "server/", "outgoing/", "gateways/", "pages/")
    ):
        return
    assert not re.search(r"\btime\.time|datetime\.now|date\.today|\bnow_ms\(\)", path.read_text())


def test_no_file_contains_a_path_of_this_machine_or_a_secret() -> None:
    top = ROOT.parents[1]
    if not (top / "migrations").is_dir():
        return
    for folder in ("src", "tests", "migrations", "docs"):
        for path in (top / folder).rglob("*"):
            if path.suffix not in {".py", ".sql", ".md", ".html", ".css"}:
                continue
            text = path.read_text()
            assert str(top) not in text, path
            secret = r"sk_live_[0-9A-Za-z]{16}|BEGIN (RSA |EC )?PRIVATE KEY"
            assert not re.search(secret, text), path
