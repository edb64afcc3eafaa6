"""The choice of pg_dump, its arguments, and the report of its errors."""

import io
import os
import subprocess
from pathlib import Path

import pytest

from opentill.cli import dumps
from opentill.cli.backup import _check_row_counts
from opentill.core.errors import ConfigurationError
from opentill.db.row_counts import RowCounts
from opentill.server.embedded.programs import Programs, find_programs


@pytest.mark.parametrize(
    ("server", "versions", "expected"),
    [
        (16, (15, 16, 17, 18), 16),
        (16, (15, 17, 18), 17),
        (18, (15, 18), 18),
        (19, (15, 18), None),
        (16, (), None),
    ],
)
def test_programs_must_have_the_servers_version_or_the_next(
    server: int, versions: tuple[int, ...], expected: int | None
) -> None:
    folders = {version: Path(f"/usr/lib/postgresql/{version}/bin") for version in versions}
    if expected is not None:
        assert dumps.choose(server, folders) == (expected, folders[expected])
        return
    with pytest.raises(ConfigurationError) as refused:
        dumps.choose(server, folders)
    text = str(refused.value)
    assert f"the server is PostgreSQL {server}, and pg_dump must not be older" in text
    assert f"postgresql-client-{server}" in text
    assert all(str(folder) in text for folder in folders.values())


def test_programs_are_found_in_the_path_and_among_the_embedded_ones(
    tmp_path: Path,
) -> None:
    embedded_version, folder = find_programs()
    versions = {"bin9": "9.6.24", "bin16": "16.3 (Debian 16.3-1)", "bin": "no version"}
    for name, version in versions.items():
        (tmp_path / name).mkdir()
        for program in ("pg_dump", "pg_restore"):
            script = tmp_path / name / program
            script.write_text(f"#!/bin/sh\necho '{program} (PostgreSQL) {version}'\n")
            script.chmod(0o755)
    path = os.pathsep.join([*(str(tmp_path / name) for name in versions), "", "/nowhere"])
    candidates = dumps.candidates(path)
    assert candidates[16] == tmp_path / "bin16"
    assert candidates[embedded_version] == folder
    (tmp_path / "bin16" / "pg_restore").unlink()
    assert dumps.candidates(path).get(16) != tmp_path / "bin16"


@pytest.mark.parametrize(
    ("url", "address", "password", "options"),
    [
        (
            "postgresql://ann:p%2Fw%40@db/opentill?sslmode=require",
            "postgresql://ann@db/opentill?sslmode=require", "p/w@", "",
        ),
        (
            "postgresql://ann@db1:5432,db2:5433/till?target_session_attrs=read-write&password=a+b",
            "postgresql://ann@db1:5432,db2:5433/till?target_session_attrs=read-write", "a b", "",
        ),
        (
            "postgresql://ann@/?host=/run/my+dir&database=till&work_mem=8 MB",
            "postgresql://ann@/?host=/run/my%20dir&dbname=till", "", r"-c work_mem=8\ MB",
        ),
    ],
)  # fmt: skip
def test_a_url_is_parsed_like_asyncpg_and_its_password_is_no_argument(
    url: str, address: str, password: str, options: str
) -> None:
    target = dumps.Target.from_url(url)
    assert (target.address, target.password, target.options) == (address, password, options)
    assert target.environment().get("PGPASSWORD", "") == password


def test_an_error_is_shown_in_full_without_the_password(tmp_path: Path) -> None:
    program = tmp_path / "pg_dump"
    program.write_text(
        "#!/bin/sh\n"
        'echo "pg_dump: error: first line" >&2\n'
        'echo "detail: password $PGPASSWORD and p%2Fw of $2" >&2\n'
        'echo "hint: third line" >&2\n'
        "exit 3\n"
    )
    program.chmod(0o755)
    tools = dumps.Tools(
        Programs(None, (18, tmp_path)), dumps.Target.from_url("postgresql://a:p%2Fw@h/d")
    )
    with (tmp_path / "file").open("wb") as file, pytest.raises(ConfigurationError) as failed:
        tools.dump(file)
    text = str(failed.value)
    assert "first line" in text
    assert "hint: third line" in text
    assert "p/w" not in text
    assert "p%2Fw" not in text


def test_a_program_that_cannot_be_run_is_named(tmp_path: Path) -> None:
    tools = dumps.Tools(Programs(None, (18, tmp_path)), dumps.Target.from_url("postgresql://a@h/d"))
    with (
        (tmp_path / "file").open("wb") as file,
        pytest.raises(ConfigurationError, match="pg_dump cannot be run: No such file"),
    ):
        tools.dump(file)


def test_a_dump_with_missing_rows_is_no_backup() -> None:
    rows = {"schema_migrations": 3, "merchants": 1, "orders": 5, "entries": 10}
    row_counts = RowCounts(migrations=3, merchants=1, orders=5, entries=10)
    # A dump may contain an entry that was added while it was made.
    _check_row_counts(rows | {"entries": 11}, row_counts)
    for dumped_rows, text in (
        ({}, "0 of 3 rows of schema_migrations"),
        (rows | {"entries": 9}, "9 of 10 rows of entries"),
        (
            {name: count for name, count in rows.items() if name != "orders"},
            "0 of 5 rows of orders",
        ),
    ):
        with pytest.raises(ConfigurationError, match=text):
            _check_row_counts(dumped_rows, row_counts)


def test_rows_in_the_output_of_pg_restore_are_counted() -> None:
    output = (
        b"SET x = 1;\nCOPY public.orders (id, note) FROM stdin;\n1\ta\n2\t\\\\.\n\\.\n\n"
        b"COPY public.empty (id) FROM stdin;\n\\.\n\n"
    )
    rows: dict[str, int] = {}
    dumps._count(rows, io.BytesIO(output))
    assert rows == {"orders": 2, "empty": 0}


def test_an_older_pg_dump_is_not_used_for_a_newer_server() -> None:
    candidates = dumps.candidates(os.environ["PATH"])
    newest = max(candidates)
    for version, folder in candidates.items():
        process = subprocess.run(
            [folder / "pg_dump", "--version"], capture_output=True, text=True, check=True
        )
        assert f" {version}" in process.stdout
    assert dumps.choose(newest, candidates)[0] == newest
    with pytest.raises(ConfigurationError, match="must not be older"):
        dumps.choose(newest + 1, candidates)
