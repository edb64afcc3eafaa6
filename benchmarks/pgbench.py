"""Run the recorded SQL by pgbench: what PostgreSQL and libpq reach without OpenTill.

Durability is the same. Values that differ by request become variables or are computed from its
number; all others are literals. Statements are prepared, as asyncpg does.
"""

import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any, Final

from benchmarks.driver import Outcome, percentiles
from benchmarks.recording import Joined, Role, Statement, events_of
from benchmarks.seed import SQL_IDS
from opentill.server.embedded.programs import find_programs

# What the request says, by operation: made of its number :i, or of its merchant's place :m.
_GIVEN: Final[Mapping[str, Mapping[str, str]]] = {
    "read": {"digest": ":m", "order": ":i"},
    "create": {"digest": ":m", "product": ":m", "session": ":i", "order": ":i"},
    "pay": {"attempt": ":i"},
}
_PARAMETER: Final = re.compile(r"\$(\d+)")


def find() -> Path | None:
    """Find pgbench: of Debian's package, on the path, or in the wheel; None if there is none."""
    _, programs = find_programs()
    places = [
        *sorted(Path("/usr/lib/postgresql").glob("*/bin/pgbench"), reverse=True),
        *([Path(path)] if (path := shutil.which("pgbench")) else []),
        *sorted(programs.parents[1].glob("pginstall*/bin/pgbench"), reverse=True),
    ]
    return places[0] if places else None


def script(operation: str, statements: list[Statement]) -> str:
    """Write the script of one request. Its variables: first, clients, each, merchants."""
    lines = [
        r"\set n :n + 1",
        r"\set m random(0, :merchants - 1)",
        r"\set i :first + :n * :clients + :client_id",
    ]
    if operation == "read":  # an order of the merchant who asks
        lines[2] = r"\set i :first + random(0, :each - 1) * :merchants + :m"
    numbers = _GIVEN[operation]
    roles = {name: f"({SQL_IDS[name].format(number)})" for name, number in numbers.items()}
    for name in events_of(statements):
        roles[name] = f"({SQL_IDS['event'].format(':i')} || '{name[5:]}')"
    for place, statement in enumerate(statements):
        if statement.how in {"begin", "commit"}:
            lines.append(f"{statement.how};")
            continue
        values = [_expression(value, roles) for value in statement.values]
        sql = _PARAMETER.sub(partial(_value, values), statement.sql)
        fresh = {role: column for column, role in statement.gives.items() if role not in roles}
        roles |= {role: f":s{place}_{column}" for role, column in fresh.items()}
        lines.append(f"{sql.strip()}\n\\gset s{place}_" if fresh else f"{sql.strip()};")
    return "\n".join(lines) + "\n"


def _value(values: Sequence[str], parameter: re.Match[str]) -> str:
    return values[int(parameter[1]) - 1]


def _expression(value: Any, roles: Mapping[str, str]) -> str:  # noqa: PLR0911 - a row for each type
    match value:
        case Role():
            return roles[value.name]
        case Joined():
            return "(" + " || ".join(_text(part, roles) for part in value.parts) + ")"
        case list():
            return "array[" + ", ".join(_expression(item, roles) for item in value) + "]"
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case int() | Decimal():
            return str(value)
        case bytes():
            return f"'\\x{value.hex()}'::bytea"
    return _quoted(str(value))


def _text(part: str | Role, roles: Mapping[str, str]) -> str:
    return f"{roles[part.name]}::text" if isinstance(part, Role) else _quoted(part)


def _quoted(text: str) -> str:
    """Write a text. pgbench takes a colon before a name for a variable's, in quotes too."""
    whole = "'" + text.replace("'", "''") + "'"
    parted = re.sub(r":(?=[A-Za-z_])", "' || ':' || '", whole)
    return whole if parted == whole else f"({parted})"


def run(
    program: Path,
    socket_dir: Path,
    text: str,
    *,
    variables: Mapping[str, int],
    clients: int,
    seconds: float | None = None,
    transactions: int = 0,
) -> Outcome:
    """Run a script for some whole seconds, or so many times in all. Raises RuntimeError."""
    with tempfile.TemporaryDirectory(prefix="opentill-pgbench-") as folder:
        path = Path(folder) / "script.sql"
        path.write_text(text)
        command = [str(program), "-n", "-M", "prepared", "-f", str(path), "-l"]
        command += ["--log-prefix", f"{folder}/log", "-c", str(clients), "-j", "2"]
        command += ["-h", str(socket_dir), "-p", "5432", "-U", "opentill", "-D", "n=-1"]
        for name, value in {**variables, "clients": clients}.items():
            command += ["-D", f"{name}={value}"]
        limit = ["-T", str(max(1, round(seconds)))] if seconds else None
        command += limit or ["-t", str(transactions // clients)]
        started = time.perf_counter()
        done = subprocess.run(  # noqa: S603 - our own words
            [*command, "opentill"], capture_output=True, text=True, check=False, cwd=folder
        )
        elapsed = time.perf_counter() - started
        if done.returncode != 0 or "aborted" in done.stderr:
            message = f"pgbench failed: {done.stderr.strip()[:500]}"
            raise RuntimeError(message)
        latencies = [
            int(line.split()[2]) / 1000
            for log in Path(folder).glob("log.*")
            for line in log.read_text().splitlines()
        ]
    p50, p99 = percentiles(latencies)
    rate = re.search(r"tps = ([0-9.]+) \(without", done.stdout)
    spent = len(latencies) / float(rate[1]) if rate else elapsed
    return Outcome(
        requests=len(latencies), seconds=spent, p50_ms=p50, p99_ms=p99, busy=0.0, failures={}
    )
