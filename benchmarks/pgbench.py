"""Run the recorded SQL with pgbench, which shows what PostgreSQL and libpq reach by themselves.

Durability is the same. Values that differ between requests are variables or are computed from the
request's number; all others are literals. Statements are prepared, as with asyncpg.
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
from benchmarks.recording import Joined, Role, Statement, event_roles
from benchmarks.seed import SQL_IDS
from opentill.server.embedded.programs import find_programs

# Operation → the roles of its values, each with the variable from which the value is computed: the
# request's number (:i) or the index of its merchant (:m).
_REQUEST_ROLES: Final[Mapping[str, Mapping[str, str]]] = {
    "read": {"digest": ":m", "order": ":i"},
    "create": {"digest": ":m", "product": ":m", "session": ":i", "order": ":i"},
    "pay": {"attempt": ":i"},
}
_PARAMETER: Final = re.compile(r"\$(\d+)")


def find_program() -> Path | None:
    """Return the path of Debian's pgbench, else of one in PATH or in the wheel, else None."""
    _, programs = find_programs()
    paths = [
        *sorted(Path("/usr/lib/postgresql").glob("*/bin/pgbench"), reverse=True),
        *([Path(path)] if (path := shutil.which("pgbench")) else []),
        *sorted(programs.parents[1].glob("pginstall*/bin/pgbench"), reverse=True),
    ]
    return paths[0] if paths else None


def build_script(operation: str, statements: list[Statement]) -> str:
    """Return the script of one request.

    Its variables are first, clients, orders_per_merchant and merchants.
    """
    lines = [
        r"\set n :n + 1",
        r"\set m random(0, :merchants - 1)",
        r"\set i :first + :n * :clients + :client_id",
    ]
    if operation == "read":  # :i must be the number of one of the merchant's orders
        lines[2] = r"\set i :first + random(0, :orders_per_merchant - 1) * :merchants + :m"
    numbers = _REQUEST_ROLES[operation]
    roles = {name: f"({SQL_IDS[name].format(number)})" for name, number in numbers.items()}
    for name in event_roles(statements):
        roles[name] = f"({SQL_IDS['event'].format(':i')} || '{name[5:]}')"
    for position, statement in enumerate(statements):
        if statement.method in {"begin", "commit"}:
            lines.append(f"{statement.method};")
            continue
        values = [_expression(value, roles) for value in statement.values]
        sql = _PARAMETER.sub(partial(_substitute, values), statement.sql)
        new_roles = {
            role: column for column, role in statement.returned_roles.items() if role not in roles
        }
        roles |= {role: f":s{position}_{column}" for role, column in new_roles.items()}
        lines.append(f"{sql.strip()}\n\\gset s{position}_" if new_roles else f"{sql.strip()};")
    return "\n".join(lines) + "\n"


def _substitute(values: Sequence[str], parameter: re.Match[str]) -> str:
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
    return _quote(str(value))


def _text(part: str | Role, roles: Mapping[str, str]) -> str:
    return f"{roles[part.name]}::text" if isinstance(part, Role) else _quote(part)


def _quote(text: str) -> str:
    """Quote a text, and split it at colons: pgbench replaces ``:name`` in quoted texts too."""
    literal = "'" + text.replace("'", "''") + "'"
    split_literal = re.sub(r":(?=[A-Za-z_])", "' || ':' || '", literal)
    return literal if split_literal == literal else f"({split_literal})"


def run(
    program: Path,
    socket_dir: Path,
    script: str,
    *,
    variables: Mapping[str, int],
    clients: int,
    seconds: float | None = None,
    transactions: int = 0,
) -> Outcome:
    """Run a script for some whole seconds, or ``transactions`` times in total.

    Raises RuntimeError if pgbench fails or aborts a client.
    """
    with tempfile.TemporaryDirectory(prefix="opentill-pgbench-") as folder:
        path = Path(folder) / "script.sql"
        path.write_text(script)
        command = [str(program), "-n", "-M", "prepared", "-f", str(path), "-l"]
        command += ["--log-prefix", f"{folder}/log", "-c", str(clients), "-j", "2"]
        command += ["-h", str(socket_dir), "-p", "5432", "-U", "opentill", "-D", "n=-1"]
        for name, value in {**variables, "clients": clients}.items():
            command += ["-D", f"{name}={value}"]
        limit = ["-T", str(max(1, round(seconds)))] if seconds else None
        command += limit or ["-t", str(transactions // clients)]
        started = time.perf_counter()
        process = subprocess.run(  # noqa: S603 - our own command
            [*command, "opentill"], capture_output=True, text=True, check=False, cwd=folder
        )
        elapsed = time.perf_counter() - started
        if process.returncode != 0 or "aborted" in process.stderr:
            message = f"pgbench failed: {process.stderr.strip()[:500]}"
            raise RuntimeError(message)
        latencies = [
            int(line.split()[2]) / 1000
            for log in Path(folder).glob("log.*")
            for line in log.read_text().splitlines()
        ]
    p50, p99 = percentiles(latencies)
    rate = re.search(r"tps = ([0-9.]+) \(without", process.stdout)
    return Outcome(
        requests=len(latencies),
        seconds=len(latencies) / float(rate[1]) if rate else elapsed,
        p50_ms=p50,
        p99_ms=p99,
        busy=0.0,
        failures={},
    )
