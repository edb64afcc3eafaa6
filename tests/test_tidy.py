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

    def over_all() -> None:
        broken = []
        for path in FILES:
            try:
                rule(path)
            except AssertionError as error:
                broken.append(f"{NAMES[path]}: {str(error).splitlines()[0:1]}")
        assert broken == []

    over_all.__name__ = rule.__name__
    return over_all


@files
def test_a_module_has_a_name_that_says_something(path: Path) -> None:
    assert not {path.stem, *path.relative_to(ROOT).parts[:-1]} & BANNED


@files
def test_a_file_can_be_read_in_one_go(path: Path) -> None:
    if "\nGenerated from " in path.read_text():  # nobody edits it: its generator is read
        return
    assert len(path.read_text().splitlines()) <= LONGEST


@files
def test_a_module_says_what_it_is_for(path: Path) -> None:
    docstring = ast.get_docstring(tree(path))
    assert docstring
    assert docstring.splitlines()[0].endswith((".", "!", "?", ":", ","))


# Modules that may read the environment besides config.py, and which variables.
ENVIRONMENT: Final = {
    "cli/identity.py": "where a user keeps what is theirs, XDG_CONFIG_HOME",
    "cli/exposure.py": "PGSSLMODE, which the database's library reads",
    "cli/dumps.py": "PATH and PG… variables, for pg_dump and pg_restore",
    "cli/running.py": "PROMETHEUS_MULTIPROC_DIR, for its children",
    "core/metrics.py": "PROMETHEUS_MULTIPROC_DIR, for its children",
    "reference/samples.py": "does not: it writes programs that do",
    "server/supervisor.py": "PROMETHEUS_MULTIPROC_DIR, for its children",
}


@files
def test_only_the_settings_read_the_environment(path: Path) -> None:
    text = path.read_text()
    if NAMES[path].startswith(("cli/", "healthcheck")):  # may pass os.environ to config.py
        text = re.sub(r"config\.\w+\(os\.environ\)", "", text)
    reads = re.search(r"os\.(environ|getenv|putenv)\b|from os import .*environ", text)
    assert reads is None or NAMES[path] in ENVIRONMENT | {"config.py": ""}


# Modules that compute with money, where no amount or rate may be a float.
MONEY: Final = re.compile(
    r"^(core/money|(ledger|orders|refunds|checkouts|products|disputes|payouts|merchants)/(?!.*test))"
)


@files
def test_money_never_meets_a_float(path: Path) -> None:
    if not MONEY.match(NAMES[path]):
        return
    for node in nodes(path):
        assert not (isinstance(node, ast.Name) and node.id == "float"), f"line {node.lineno}"
        if isinstance(node, ast.Constant) and isinstance(node.value, float):
            line = path.read_text().splitlines()[node.lineno - 1]
            assert re.search(r"_S\b|_s\b|timeout|sleep", line), f"line {node.lineno}: {line}"
        assert not isinstance(node, ast.Div) or NAMES[path] in DIVIDES, "a division"


DIVIDES: Final = {"refunds/shares.py": "one Decimal rate by another"}

# Modules with SQL other than `queries` modules, and why.
SQL_ELSEWHERE: Final = {
    "server/embedded/cluster.py": "makes the database, in single-user mode: there is no connection",
    "reconciliation/report.py": "a scratch file of its own (SQLite)",
}
_SQL: Final = re.compile(  # ours is in lower case
    r"^\s*(select\s|insert\s+into\s|update\s+\w+\s+\w*\s*set\s|delete\s+from\s|with\s+\w+\s+as\s*\("
    r"|(create|alter|drop|lock)\s+(table|database|index)\s|set\s+(local|session|transaction)\s)"
)


@files
def test_sql_stands_in_queries_modules(path: Path) -> None:
    name = NAMES[path]
    if path.stem.endswith("queries") or name in SQL_ELSEWHERE or name.startswith("sandbox/"):
        return  # the bank in a box is an application of its own, with a store of its own
    for node in nodes(path):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            assert not _SQL.match(node.value), f"line {node.lineno}: {node.value[:60]}"


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
def test_a_feature_is_used_through_its_name_and_never_through_its_queries(path: Path) -> None:
    own = path.relative_to(ROOT).parts[0]
    for node in nodes(path):
        if isinstance(node, ast.ImportFrom) and node.module:
            parts = node.module.split(".")
            others = parts[0] == "opentill" and len(parts) > 1 and parts[1] != own
            names = {alias.name for alias in node.names}
            assert not (others and ("queries" in names or parts[-1] == "queries")), node.module


# Times come from outside, so that a test can set them.
CLOCKS: Final = {
    "http/operations.py": "now_ms, the one clock",
    "core/ids.py": "ids carry their own time",
    "http/middleware.py": "how long a request took",
    "db/migrations.py": "when a file was applied",
    "callbacks/reading.py": "the age of a signature, which another machine dated: real time",
    "client/retries.py": "a Retry-After that is a date: real time, on a merchant's machine",
    "client/signatures.py": "the age of a signature: real time, on a merchant's machine",
    "health.py": "how long ago the books were checked: real time, as the check itself",
    "integrity/rules.py": "for how long events are kept, by the real time in their ids",
    "integrity/scheduler.py": "how long checked books rest: real time, whatever business time does",
    "people/second_factor.py": "codes of an authenticator, another device: real time",
    "worker.py": "how long a job took",
    "webhooks/catchup.py": "numbers above all given before a backup was restored: real time",
    "webhooks/held_leases.py": "leases, which other workers compare with their clocks: real time",
    "webhooks/sending.py": "the time of a signature, which the receiver compares: real time",
}


@files
def test_features_are_told_the_time(path: Path) -> None:
    name = NAMES[path]
    if name in CLOCKS or name.startswith(
        ("cli/", "sandbox/", "core/", "db/", "server/", "outgoing/", "gateways/", "pages/")
    ):
        return
    assert not re.search(r"\btime\.time|datetime\.now|date\.today|\bnow_ms\(\)", path.read_text())


def test_no_file_names_a_machine_or_holds_a_secret() -> None:
    top = ROOT.parents[1]
    if not (top / "migrations").is_dir():
        return
    here = [top / name for name in ("src", "tests", "migrations", "docs")]
    texts = [
        p
        for folder in here
        for p in folder.rglob("*")
        if p.suffix in {".py", ".sql", ".md", ".html", ".css"}
    ]
    for path in texts:
        text = path.read_text()
        assert str(top) not in text, path
        assert not re.search(r"sk_live_[0-9A-Za-z]{16}|BEGIN (RSA |EC )?PRIVATE KEY", text), path
