"""A dump that mysqldump makes of a real MariaDB is read like the values that it stored.

The test needs MariaDB's server: ``make test-mariadb`` says how to install it.
"""

import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from opentill import epay_import
from opentill.epay_import.reading import Reader
from opentill.epay_import.tables import Tables
from support import old_epay
from support.imported_shops import rows_of

_PROGRAMS: Final = ("mariadbd", "mariadb-install-db", "mariadb", "mariadb-dump")
_MISSING: Final = [name for name in _PROGRAMS if not shutil.which(name, path="/usr/sbin:/usr/bin")]
pytestmark = pytest.mark.skipif(
    bool(_MISSING), reason=f"not installed: {', '.join(_MISSING)} (Debian: mariadb-server)"
)
_TYPES: Final = {1: "alipay", 2: "wxpay", 3: "qqpay"}


class MariaDb:
    """A server on a socket in its own directory."""

    def __init__(self, directory: Path) -> None:
        self._socket = directory / "s"
        data = directory / "data"
        subprocess.run(
            ["/usr/bin/mariadb-install-db", "--no-defaults", f"--datadir={data}", "--user=root",
             "--auth-root-authentication-method=normal", "--skip-test-db"],
            check=True, capture_output=True,
        )  # fmt: skip
        self.process = subprocess.Popen(
            ["/usr/sbin/mariadbd", "--no-defaults", f"--datadir={data}", "--user=root",
             f"--socket={self._socket}", "--skip-networking", "--innodb-buffer-pool-size=16M",
             f"--pid-file={directory / 'pid'}", "--sql-mode="],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        deadline = time.monotonic() + 60
        while self.run("select 1", check=False).returncode and time.monotonic() < deadline:
            time.sleep(0.1)

    def run(self, sql: str, *, check: bool = True) -> "subprocess.CompletedProcess[str]":
        """Run statements."""
        return subprocess.run(
            ["/usr/bin/mariadb", "--no-defaults", f"--socket={self._socket}", "-uroot",
             "--default-character-set=utf8mb4"],
            input=sql, check=check, capture_output=True, text=True,
        )  # fmt: skip

    def dump(self, path: Path, *options: str) -> Path:
        """Write a dump of the database ``epay``."""
        with path.open("wb") as file:
            subprocess.run(
                ["/usr/bin/mariadb-dump", "--no-defaults", f"--socket={self._socket}", "-uroot",
                 *options, "epay"],
                check=True, stdout=file,
            )  # fmt: skip
        return path


@pytest.fixture(scope="module")
def mariadb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariaDb]:
    """A running MariaDB with the small server and 300 orders."""
    server = MariaDb(tmp_path_factory.mktemp("m"))
    statements = ["create database epay character set utf8mb4; use epay; set names utf8mb4;"]
    for table, rows in (old_epay.small_tables() | {"order": _orders()}).items():
        statements.append(f"create table pre_{table} ({old_epay.COLUMNS[table]});")
        for row in rows:
            cells = ", ".join(old_epay.quote(row[name]) for name in old_epay.names(table))
            statements.append(f"insert into pre_{table} values ({cells});")
    server.run("\n".join(statements))
    yield server
    server.process.terminate()
    server.process.wait(30)


def _orders() -> list[dict[str, Any]]:
    """Return orders with text that a dump must escape, zero dates and NULLs."""
    texts = (
        "a'b",
        'c"d',
        "e\\f",
        "g\nh\r\ti",
        "j;k), (l",
        "表情😀",
        "%_\x1a",
        "-- m",
        "/* n */",
        "",
    )
    return [
        old_epay.order(
            number,
            name=texts[number % len(texts)],
            param=None if number % 4 == 0 else texts[(number + 3) % len(texts)],
            endtime="0000-00-00 00:00:00"
            if number % 5 == 0
            else f"2026-04-01 00:{number % 60:02}:00",
            status=(1, 0)[number % 7 == 0],
        )
        for number in range(300)
    ]


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--skip-extended-insert", "--complete-insert", "--skip-comments"),
        ("--hex-blob", "--single-transaction", "--compatible=mysql40"),
    ],
)
def test_a_real_dump_has_the_stored_values(
    mariadb: MariaDb, tmp_path: Path, options: tuple[str, ...]
) -> None:
    path = mariadb.dump(tmp_path / "real.sql", "--default-character-set=utf8mb4", *options)
    tables = Tables()
    reader = Reader("Asia/Shanghai", _TYPES)
    read = [reader.order(row) for row in rows_of(path)(tables) if tables.kind(row.table) == "order"]
    expected_path = tmp_path / "ours.sql"
    ours = old_epay.small_tables() | {"order": _orders()}
    expected_path.write_text("".join(old_epay.dump(ours)), encoding="utf-8", newline="")
    other = Tables()
    expected = [
        reader.order(row)
        for row in rows_of(expected_path)(other)
        if other.kind(row.table) == "order"
    ]
    assert read == expected
    assert len(read) == 300


def test_a_real_dump_in_another_character_set_or_cut_is_refused(
    mariadb: MariaDb, tmp_path: Path
) -> None:
    path = mariadb.dump(tmp_path / "gbk.sql", "--default-character-set=gbk")
    with pytest.raises(epay_import.BadSource, match="character set gbk"):
        list(rows_of(path)(Tables()))
    whole = mariadb.dump(tmp_path / "cut.sql", "--default-character-set=utf8mb4").read_bytes()
    for share in (0.5, 0.9, 0.999):
        (tmp_path / "cut.sql").write_bytes(whole[: int(len(whole) * share)])
        with pytest.raises(epay_import.BadSource, match="the file ends here"):
            list(rows_of(tmp_path / "cut.sql")(Tables()))
