"""The embedded PostgreSQL: crash recovery, sharing between processes, unusable directories."""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from opentill.server.embedded import datadir, programs, sysuser
from opentill.server.embedded.cluster import STOP_TIMEOUT_S, Cluster, last_problem
from opentill.server.embedded.datadir import (
    DataDirError,
    Lock,
    RestoreDirectory,
    lock_serve,
    read_or_create_key,
    write_private,
)
from opentill.server.embedded.postgres import EmbeddedPostgres
from support.pooler import connect

COMPOSE = Path(__file__).parents[2] / "compose.yaml"
PR_CAPBSET_DROP = 24  # the number is defined in linux/prctl.h
CAP_SYS_PTRACE = 19  # the number is defined in linux/capability.h
_PRCTL = ctypes.CDLL(None).prctl


@pytest.fixture
def data_dir() -> Iterator[Path]:
    """A new directory outside of pytest's directory, which PostgreSQL's user cannot enter."""
    with tempfile.TemporaryDirectory(prefix="opentill-test-") as name:
        yield Path(name) / "data"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Path]:
    """The files of a database that was created and stopped cleanly, for copying."""
    with tempfile.TemporaryDirectory(prefix="opentill-test-") as name:
        data = Path(name) / "data"
        EmbeddedPostgres.start(data, durable=False).release()
        yield data / "postgres"


@pytest.fixture
def existing(data_dir: Path, cluster: Path) -> Path:
    """A data directory with a copy of ``cluster``."""
    data_dir.mkdir(mode=0o700)
    subprocess.run(["cp", "-a", str(cluster), str(data_dir)], check=True)
    return data_dir


async def _sql(url: str, statement: str) -> object:
    connection = await connect(url)
    try:
        return await connection.fetchval(statement)
    finally:
        await connection.close()


def _pid(data_dir: Path) -> int:
    return int((data_dir / "postgres" / "postmaster.pid").read_text().splitlines()[0])


def _is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _until_ended(pid: int) -> None:
    """Wait until a server that has removed its pid file has ended."""
    deadline = time.monotonic() + 60
    while _is_running(pid):
        assert time.monotonic() < deadline
        time.sleep(0.02)


async def test_committed_data_survives_kill_9_of_all_processes(existing: Path) -> None:
    child = _start_in_child(existing)
    url = (existing / "url").read_text()
    await _sql(url, "create table numbers (n int)")
    await _sql(url, "insert into numbers values (7)")
    pid = _pid(existing)
    child.kill()
    child.wait()
    _kill_cluster(pid)
    with EmbeddedPostgres.start(existing) as server:
        assert await _sql(server.url, "select n from numbers") == 7
        assert _pid(existing) != pid


@pytest.mark.parametrize("is_linked", [False, True])
async def test_a_server_orphaned_by_a_killed_process_is_adopted_and_stopped(
    existing: Path, *, is_linked: bool
) -> None:
    if is_linked:  # an operator may have moved the files to another disk
        EmbeddedPostgres.start(existing, durable=False).release()
        (existing / "postgres").rename(existing.with_name("moved"))
        (existing / "postgres").symlink_to(existing.with_name("moved"))
    child = _start_in_child(existing)
    pid = _pid(existing)
    child.kill()
    child.wait()
    assert _is_running(pid)
    server = EmbeddedPostgres.start(existing)
    assert _pid(existing) == pid
    assert await _sql(server.url, "select 1") == 1
    server.release()
    _until_ended(pid)


async def test_the_server_is_shared_and_stopped_by_its_last_user(existing: Path) -> None:
    child = _start_in_child(existing)
    pid = _pid(existing)
    with EmbeddedPostgres.start(existing) as server:
        assert _pid(existing) == pid
        assert await _sql(server.url, "select 1") == 1
    assert _is_running(pid)
    child.send_signal(signal.SIGTERM)
    assert child.wait() == 0
    _until_ended(pid)


async def test_the_server_is_durable_has_checksums_and_listens_on_a_socket_only(
    data_dir: Path,
) -> None:
    with EmbeddedPostgres.start(data_dir) as server:
        for name, value in {
            "fsync": "on",
            "synchronous_commit": "on",
            "full_page_writes": "on",
            "data_checksums": "on",
            "listen_addresses": "",
            "max_connections": "100",
            "server_encoding": "UTF8",
            "log_min_error_statement": "panic",
        }.items():
            assert await _sql(server.url, f"show {name}") == value, name
        socket_dir = Cluster(data_dir.resolve()).socket_dir
        assert socket_dir.stat().st_mode & 0o077 == 0
        server.release()
        server.release()


def test_initdb_accepts_the_options_in_compose_yaml(data_dir: Path) -> None:
    database = yaml.safe_load(COMPOSE.read_text())["services"]["database"]
    options = database["environment"]["POSTGRES_INITDB_ARGS"].split()
    ids = sysuser.user_ids(data_dir)
    data_dir.mkdir()
    if ids is not None:
        os.chown(data_dir, *ids)
        sysuser.allow_path(data_dir, ids[0])
    process = programs.Programs(ids).run("initdb", *options, "--no-sync", f"--pgdata={data_dir}")
    assert process.returncode == 0, process.stderr.decode()


async def test_a_long_data_directory_has_a_short_socket_path(data_dir: Path) -> None:
    long_path = data_dir / ("d" * 100)
    with EmbeddedPostgres.start(long_path, durable=False) as server:
        assert await _sql(server.url, "select 1") == 1
        socket_dir = Cluster(long_path.resolve()).socket_dir
        assert socket_dir.stat().st_mode & 0o077 == 0
    assert not socket_dir.exists()


async def test_a_path_may_contain_special_characters(data_dir: Path) -> None:
    special_path = data_dir / "a b&c%d'é"
    with EmbeddedPostgres.start(special_path, durable=False) as server:
        assert await _sql(server.url, "select 1") == 1


async def test_a_pid_file_with_another_process_s_id_is_ignored(existing: Path) -> None:
    with EmbeddedPostgres.start(existing, durable=False):
        pid_file = existing / "postgres" / "postmaster.pid"
        lines = pid_file.read_text().splitlines()
        _kill_cluster(_pid(existing))
    pid_file.write_text("\n".join([str(os.getpid()), *lines[1:]]) + "\n")
    with EmbeddedPostgres.start(existing, durable=False) as server:
        assert await _sql(server.url, "select 1") == 1
    assert _is_running(os.getpid())


async def test_a_start_that_was_killed_can_be_repeated(data_dir: Path) -> None:
    incomplete = data_dir / "postgres.new-half"
    incomplete.mkdir(parents=True)
    (incomplete / "PG_VERSION").write_text("18\n")
    with EmbeddedPostgres.start(data_dir, durable=False):
        assert not incomplete.exists()


UNUSABLE = [
    # Each row: name, content of {data_dir}/postgres, part of the error.
    ("foreign content", {"notes.txt": "mine"}, "holds something else than a PostgreSQL"),
    ("newer", {"PG_VERSION": "99\n"}, "made by PostgreSQL 99, this OpenTill brings 18"),
    ("older", {"PG_VERSION": "15\n"}, "made by PostgreSQL 15, this OpenTill brings 18"),
]


@pytest.mark.parametrize(
    ("files", "text"), [row[1:] for row in UNUSABLE], ids=[row[0] for row in UNUSABLE]
)
def test_an_unusable_directory_is_unchanged_and_reported_in_one_line(
    data_dir: Path, files: dict[str, str], text: str
) -> None:
    (data_dir / "postgres").mkdir(parents=True)
    for name, content in files.items():
        (data_dir / "postgres" / name).write_text(content)
    with pytest.raises(DataDirError, match=text) as caught:
        EmbeddedPostgres.start(data_dir)
    assert "\n" not in str(caught.value)
    assert {path.name for path in (data_dir / "postgres").iterdir()} == set(files)


def test_a_file_instead_of_the_data_directory_is_reported_in_one_line(data_dir: Path) -> None:
    data_dir.parent.joinpath("file").write_text("")
    for path in (data_dir.parent / "file", data_dir.parent / "file" / "below"):
        with pytest.raises(DataDirError, match="not a directory"):
            datadir.prepare(path)


def test_a_read_only_directory_is_reported_in_one_line(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(DataDirError, match="cannot be written .*OPENTILL_DATA_DIR"):
        datadir.prepare(data_dir)


def test_a_platform_without_postgresql_is_reported_in_one_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(programs.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(DataDirError, match="set OPENTILL_DATABASE_URL"):
        programs.find_programs()


def test_a_failed_start_reports_the_last_line_of_the_log(existing: Path) -> None:
    (existing / "postgres" / "postgresql.conf").write_text("nonsense nonsense\n")
    with pytest.raises(DataDirError, match="does not start: .*FATAL") as caught:
        EmbeddedPostgres.start(existing, durable=False)
    assert "\n" not in str(caught.value)


def test_only_one_serve_uses_a_data_directory(data_dir: Path) -> None:
    first = lock_serve(data_dir)
    with pytest.raises(DataDirError, match=rf"another `opentill serve` \(process {os.getpid()}\)"):
        lock_serve(data_dir)
    first.release()
    lock_serve(data_dir).release()


def test_a_lock_ends_with_its_process(data_dir: Path) -> None:
    data_dir.mkdir()
    code = "import sys, time; from pathlib import Path\n"
    code += "from opentill.server.embedded.datadir import Lock\n"
    code += "lock = Lock(Path(sys.argv[1])); lock.take(); print(1, flush=True); time.sleep(60)"
    path = data_dir / "a.lock"
    with subprocess.Popen([sys.executable, "-c", code, path], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        lock = Lock(path)
        assert not lock.take(wait=False)
        holder.kill()
    assert lock.take()
    lock.release()


def test_a_key_is_created_once_and_readable_by_its_owner_only(data_dir: Path) -> None:
    key = read_or_create_key(data_dir, "secret.key")
    assert len(key) == 64
    assert read_or_create_key(data_dir, "secret.key") == key
    assert read_or_create_key(data_dir, "sandbox.key") != key
    assert (data_dir / "secret.key").stat().st_mode & 0o777 == 0o600
    assert [path.name for path in data_dir.glob("secret.key*")] == ["secret.key"]


def test_a_truncated_key_is_not_replaced(data_dir: Path) -> None:
    data_dir.mkdir()
    (data_dir / "secret.key").write_text("short\n")
    with pytest.raises(DataDirError, match="does not hold a key"):
        read_or_create_key(data_dir, "secret.key")


def test_a_private_file_is_replaced_atomically(data_dir: Path) -> None:
    data_dir.mkdir()
    write_private(data_dir / "a", "one")
    write_private(data_dir / "a", "two")
    assert (data_dir / "a").read_text() == "two"
    assert (data_dir / "a").stat().st_mode & 0o777 == 0o600


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
class TestAsRoot:
    """PostgreSQL runs as another user, and no other user gains access."""

    def test_only_postgresqls_user_can_traverse_private_directories(self, data_dir: Path) -> None:
        data_dir.parent.chmod(0o700)
        with EmbeddedPostgres.start(data_dir, durable=False):
            assert data_dir.parent.stat().st_mode & 0o007 == 0
            owner = (data_dir / "postgres").stat().st_uid
            assert owner != 0
            assert Path(f"/proc/{_pid(data_dir)}").stat().st_uid == owner
        other = subprocess.run(["ls", data_dir], user=65534, check=False, capture_output=True)
        assert other.returncode != 0

    def test_the_owner_of_existing_files_is_kept(self, data_dir: Path) -> None:
        data_dir.mkdir()
        os.chown(data_dir, 4711, 4712)
        assert sysuser.user_ids(data_dir) == (4711, 4712)

    def test_an_unprivileged_user_runs_the_server_itself(self, data_dir: Path) -> None:
        process = _run_as_user(65534, data_dir)
        assert process.returncode == 0, process.stderr
        assert (data_dir / "postgres").stat().st_uid == 65534

    def test_a_user_id_without_a_name_runs_the_server_or_gets_a_hint(self, data_dir: Path) -> None:
        process = _run_as_user(43210, data_dir)
        if sysuser.nss_wrapper() is None:
            assert "install libnss-wrapper" in process.stderr.splitlines()[-1]
        else:
            assert process.returncode == 0, process.stderr
            assert (data_dir / "postgres").stat().st_uid == 43210
        assert list(data_dir.glob("postgres.new-*")) == []

    @pytest.mark.parametrize("is_adopted", [False, True], ids=["own child", "adopted"])
    def test_a_server_that_may_not_be_traced_is_stopped_completely_and_soon(
        self, existing: Path, is_adopted: bool
    ) -> None:
        """Root in a container may not inspect the processes of other users."""
        if is_adopted:
            child = _start_in_child(existing, durable=False)
            child.kill()
            child.wait()
        code = "import sys, time; from pathlib import Path\n"
        code += "from opentill.server.embedded.postgres import EmbeddedPostgres\n"
        code += "server = EmbeddedPostgres.start(Path(sys.argv[1]), durable=False)\n"
        code += "begin = time.monotonic(); server.release(); print(time.monotonic() - begin)"
        process = subprocess.run(
            [sys.executable, "-c", code, existing],
            preexec_fn=lambda: _PRCTL(PR_CAPBSET_DROP, CAP_SYS_PTRACE, 0, 0, 0),
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert float(process.stdout) < STOP_TIMEOUT_S / 2
        assert not (existing / "postgres" / "postmaster.pid").exists()
        assert "database system is shut down" in (existing / "postgres.log").read_text()


def test_a_user_id_without_a_name_and_library_is_reported_in_one_line(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sysuser, "nss_wrapper", lambda: None)
    monkeypatch.setattr(sysuser.pwd, "getpwuid", lambda uid: {}[uid])
    with pytest.raises(DataDirError, match="has no name on this system.*libnss-wrapper") as caught:
        EmbeddedPostgres.start(data_dir, durable=False)
    assert "\n" not in str(caught.value)


def test_a_failure_to_add_a_system_user_is_reported_in_one_line(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ids(_: Path) -> None:
        message = "cannot add the system user"
        raise OSError(message)

    monkeypatch.setattr(sysuser, "user_ids", ids)
    with pytest.raises(DataDirError, match="cannot be started: cannot add the system user"):
        EmbeddedPostgres.start(data_dir, durable=False)


def _run_as_user(uid: int, data_dir: Path) -> subprocess.CompletedProcess[str]:
    """Start and stop the server as a user, in a data directory of that user."""
    data_dir.mkdir()
    os.chown(data_dir.parent, uid, uid)
    os.chown(data_dir, uid, uid)
    code = "import sys; from pathlib import Path\n"
    code += "from opentill.server.embedded.postgres import EmbeddedPostgres\n"
    code += "with EmbeddedPostgres.start(Path(sys.argv[1]), durable=False): pass"
    packages = [path for path in sys.path if path.endswith(("/src", "site-packages"))]
    try:
        return subprocess.run(
            ["/usr/bin/python3", "-c", code, data_dir],
            user=uid,
            group=uid,
            extra_groups=[],
            cwd="/",
            capture_output=True,
            text=True,
            check=False,
            env={"PYTHONPATH": os.pathsep.join(packages), "PYTHONDONTWRITEBYTECODE": "1"},
        )
    except OSError:
        pytest.skip("no interpreter that another user can run")


def _start_in_child(data_dir: Path, *, durable: bool = True) -> subprocess.Popen[bytes]:
    """Start a process that starts the server, writes its URL to ``url`` and waits for SIGTERM."""
    code = """if True:
        import signal, sys, time
        from pathlib import Path
        from opentill.server.embedded.postgres import EmbeddedPostgres
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        with EmbeddedPostgres.start(Path(sys.argv[1]), durable=sys.argv[2] == "True") as server:
            Path(sys.argv[1], "new").write_text(server.url)
            Path(sys.argv[1], "new").rename(Path(sys.argv[1], "url"))
            time.sleep(60)
    """
    child = subprocess.Popen([sys.executable, "-c", code, data_dir, str(durable)])
    deadline = time.monotonic() + 120
    while not (data_dir / "url").exists():
        assert child.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return child


def _kill_cluster(pid: int) -> None:
    """Kill a postmaster and all its children, like a power failure."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    os.kill(pid, signal.SIGKILL)
    for process in map(int, children):
        with contextlib.suppress(ProcessLookupError):  # the process has already ended
            os.kill(process, signal.SIGKILL)


MODES = [
    # Each row: existing path ("": the data directory), its mode before, its mode after.
    ("", 0o755, 0o700),
    ("", 0o2775, 0o2700),
    ("secret.key", 0o644, 0o600),
    ("sandbox.sqlite3-wal", 0o666, 0o600),
    ("demo.json", 0o640, 0o600),
    ("postgres.log", 0o755, 0o600),
    ("metrics/", 0o755, 0o700),
    ("postgres/", 0o750, 0o700),
    ("unrelated.sh", 0o755, 0o755),
]


@pytest.mark.parametrize(("name", "before", "after"), MODES)
def test_an_existing_path_is_closed_to_other_users(
    data_dir: Path, name: str, before: int, after: int
) -> None:
    data_dir.mkdir(mode=0o700)
    path = data_dir / name
    if name.endswith("/"):
        path.mkdir()
    elif name:
        path.write_text("x" * 64)
    (data_dir / "serve.lock").touch(0o600)  # this file marks a data directory
    path.chmod(before)
    datadir.prepare(data_dir)
    assert path.stat().st_mode & 0o7777 == after


def test_the_mode_of_an_unrelated_directory_is_not_changed(data_dir: Path) -> None:
    """The directory may be the root of a file system or of a web site."""
    data_dir.mkdir()
    data_dir.chmod(0o755)
    (data_dir / "lost+found").mkdir()
    (data_dir / "index.html").touch()
    with pytest.raises(DataDirError, match="holds other things"):
        datadir.prepare(data_dir)
    assert data_dir.stat().st_mode & 0o7777 == 0o755
    (data_dir / "index.html").unlink()
    datadir.prepare(data_dir)
    assert data_dir.stat().st_mode & 0o7777 == 0o700


def test_a_directory_shared_by_users_is_refused(data_dir: Path) -> None:
    data_dir.mkdir()
    data_dir.chmod(0o1777)
    with pytest.raises(DataDirError, match="several users share"):
        datadir.prepare(data_dir)
    assert data_dir.stat().st_mode & 0o7777 == 0o1777


def test_another_user_s_open_directory_is_refused(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data_dir.mkdir()
    monkeypatch.setattr(os, "geteuid", lambda: data_dir.stat().st_uid + 1)
    data_dir.chmod(0o770)  # a container's volume may have this mode
    datadir.prepare(data_dir)
    data_dir.chmod(0o777)
    with pytest.raises(DataDirError, match="open to every user .*chmod o-rwx"):
        datadir.prepare(data_dir)


def test_a_database_is_created_only_where_one_is_expected(data_dir: Path) -> None:
    with pytest.raises(datadir.NoDatabase, match=f"no OpenTill database in {data_dir}/postgres"):
        EmbeddedPostgres.start(data_dir, durable=False, creates=False)
    assert not data_dir.exists()


def test_a_restore_that_ends_while_another_begins_keeps_its_database(data_dir: Path) -> None:
    restoring = RestoreDirectory(data_dir)
    (restoring.path / "postgres").mkdir()
    (restoring.path / "postgres" / "PG_VERSION").touch()
    gate = Lock(data_dir / "postgres.start.lock")
    # Another restore would hold this lock while it checks for a database.
    gate.take()
    ending = threading.Thread(target=restoring.finish)
    ending.start()
    ending.join(0.3)
    assert not (data_dir / "postgres").exists()
    gate.release()
    ending.join()
    with pytest.raises(DataDirError, match="has a database"):
        RestoreDirectory(data_dir)
    restoring.release()
    assert not restoring.path.exists()
    assert (data_dir / "postgres" / "PG_VERSION").exists()


def test_a_database_created_during_a_restore_is_kept(data_dir: Path) -> None:
    restoring = RestoreDirectory(data_dir)
    (restoring.path / "postgres").mkdir()
    (data_dir / "postgres").mkdir()
    (data_dir / "postgres" / "PG_VERSION").touch()
    with pytest.raises(DataDirError, match="has a database"):
        restoring.finish()
    restoring.release()
    assert (data_dir / "postgres" / "PG_VERSION").exists()


def test_a_failed_initdb_is_reported_by_its_error_and_not_by_its_last_line() -> None:
    output = (
        b"creating configuration files ... ok\n"
        b"initdb: error: could not write file: No space left on device\n"
        b'initdb: removing contents of data directory "/data/postgres.new-1"\n'
    )
    reported = last_problem(output)
    assert reported == "initdb: error: could not write file: No space left on device"
