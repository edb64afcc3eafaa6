"""What all tests share, each once for an xdist worker.

A real PostgreSQL, fresh migrated databases, a transaction that is rolled back, a running server,
the sandbox bank.
"""

import asyncio
import functools
import gc
import itertools
import os
import random
import shutil
import ssl
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import httpcore2
import hypothesis
import pytest
import structlog
import uvloop

from opentill.core.settings import Settings
from opentill.db import connection, migrations
from opentill.server.embedded import cluster
from opentill.server.embedded.postgres import EmbeddedPostgres
from opentill.server.embedded.programs import find_programs
from support import commands, pooler
from support.api_server import api_server, clock, shop
from support.commands import fork_server
from support.databases import Databases, named
from support.deployment import copy, deployment, migrated
from support.once import once
from support.pooler import POOLED
from support.sandbox_bank import bank_url
from support.transactions import (
    db,
    each_rolled_back,
    module_database_url,
    rollback_connection,
    rollback_database_url,
    tx,
)

__all__ = [
    "api_server",
    "bank_url",
    "clock",
    "db",
    "deployment",
    "each_rolled_back",
    "fork_server",
    "migrated",
    "module_database_url",
    "rollback_connection",
    "rollback_database_url",
    "shop",
    "tx",
]

TEMPLATE: Final = "opentill_template"
# Switches for whole runs, see docs/testing.md: every transaction in this isolation, and everything
# of ours through a PgBouncer in transaction mode.
# A whole number here has modules, and the tests in each, run in an order of chance: the same for
# the same number.
ORDER: Final = os.environ.get("OPENTILL_TEST_ORDER", "")
ISOLATION: Final = os.environ.get("OPENTILL_TEST_ISOLATION", "read committed")
# Files of a server that has the first of the migrations, for a run inside another run.
BEGUN: Final = os.environ.get("OPENTILL_TEST_POSTGRES", "")
# The files whose tests last longest, in this order; the browser's all in one worker.
LONG: Final = (
    "tests/browser/",
    "tests/test_recipes.py",
    "tests/cli/test_readme.py",
    "tests/cli/test_running.py",
    "tests/server/test_embedded.py",
    "tests/javascript/",
    "tests/client/test_shops.py",
    "tests/gateways/test_stripe_orders.py",
    "tests/test_benchmarks.py",
    "tests/gateways/test_bank_faults.py",
    "tests/server/test_killed_processes.py",
    "tests/gateways/test_recipe.py",
    "tests/webhooks/test_dispatch.py",
    "tests/webhooks/test_hosts.py",
    "tests/db/",
    "tests/server/",
    "tests/gateways/test_epay_chain.py",
    "tests/spec/test_concurrency.py",
    "tests/spec/test_document.py",
    "tests/cli/",
    "tests/disputes/test_commands.py",
    "tests/exploration/",
    "tests/epay/test_clients.py",
)
TESTS: Final = Path(__file__).parent
# Tests make and remove files by the ten thousand, of which none has to outlive them.
MEMORY: Final = Path("/dev/shm")  # noqa: S108 - only the parent of directories of chance names
ROOM: Final = 4 << 30  # bytes: a whole run takes less
DAY_S: Final = 86_400
_numbers: Final = itertools.count(1)
_MADE: Final = pytest.StashKey[Path]()
pytest.register_assert_rewrite("exploration")  # a history that fails says what differs


# `make test` tries the same examples each time, `make test-nightly` more and others each time.
# How long an example takes says nothing on a machine that has other work.
_PROFILE: Final = hypothesis.settings(
    deadline=None,
    database=None,
    suppress_health_check=[
        hypothesis.HealthCheck.too_slow,
        hypothesis.HealthCheck.function_scoped_fixture,
    ],
)
hypothesis.settings.register_profile("suite", _PROFILE, max_examples=100, derandomize=True)
hypothesis.settings.register_profile("nightly", _PROFILE, max_examples=1000)
hypothesis.settings.load_profile("suite")

# structlog draws a traceback with the local variables of each frame unless it is told otherwise:
# a second of work for each of the errors that tests bring about.
structlog.configure(
    processors=[
        structlog.processors.add_log_level,
        structlog.dev.ConsoleRenderer(
            colors=False, exception_formatter=structlog.dev.plain_traceback
        ),
    ]
)
_LOG: Final = structlog.get_config()

# To read the system's certificates takes a moment, and every client makes a context with them: here
# all of a process have the same one. Where the environment names others, they are read.
_MAKE_CONTEXT: Final = ssl.create_default_context
_SHARED_CONTEXT: Final = functools.cache(_MAKE_CONTEXT)
ssl.create_default_context = lambda *given, **named: (
    _MAKE_CONTEXT(*given, **named)
    if given or named or {"SSL_CERT_FILE", "SSL_CERT_DIR"} & os.environ.keys()
    else _SHARED_CONTEXT()
)
httpcore2.default_ssl_context = functools.cache(httpcore2.default_ssl_context)

cluster.SETTINGS = dict(  # type: ignore[misc] # of every server that a test starts in its process
    cluster.SETTINGS, default_transaction_isolation=ISOLATION
)
if POOLED:
    _options = connection.options
    connection.options = lambda *, prepared=True: _options(prepared=False)  # whatever is asked


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Give each run a temporary directory of its own, unless it was told one.

    pytest closes the directory that all its runs share to other users whenever one begins. If we
    are root, the embedded PostgreSQL is another user, and could not start under it at that moment.
    """
    if hasattr(config, "workerinput"):
        config.args = _turned(config.args, config.workerinput)
        return
    if "TMPDIR" not in os.environ and _takes_programs_and_databases(MEMORY):
        os.environ["TMPDIR"] = tempfile.tempdir = str(MEMORY)  # and that of all that is started
        _forget_killed_runs()
    if config.option.basetemp is None:
        config.option.basetemp = tempfile.mkdtemp(prefix="opentill-tests-")
        config.stash[_MADE] = Path(config.option.basetemp)
    os.environ.pop(commands.SHARED, None)  # that of a run that has started this one
    if config.getoption("numprocesses", None):
        shared = ExitStack()
        os.environ[commands.SHARED] = shared.enter_context(commands.forking())
        config.add_cleanup(shared.close)


def _turned(args: list[str], worker: dict[str, Any]) -> list[str]:
    """Let each worker import another part of the tests first, and the other parts after it.

    pytest compiles a test file that nobody has compiled before. All would compile all of them if
    they came to the same ones at the same time. They end with the tests in the same order.
    """
    if args != [str(TESTS)] and args != [TESTS.name]:
        return args
    places = sorted(str(path) for path in TESTS.iterdir() if path.is_dir() or _is_test(path))
    first = int(worker["workerid"].removeprefix("gw")) * len(places) // worker["workercount"]
    return places[first:] + places[:first]


def _is_test(path: Path) -> bool:
    return path.name.startswith("test_") and path.suffix == ".py"


def _takes_programs_and_databases(folder: Path) -> bool:
    if not os.access(folder, os.W_OK):
        return False
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize >= ROOM and not found.f_flag & os.ST_NOEXEC


def _forget_killed_runs() -> None:
    """Give back the memory of what nobody has looked at for a day."""
    for left in MEMORY.glob("opentill-test*"):
        with suppress(OSError):  # somebody else's, or just removed
            if left.stat().st_mtime < time.time() - DAY_S:
                shutil.rmtree(left, ignore_errors=True)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Remove the directory of a run that went well; that of another is left to be looked at."""
    made = session.config.stash.get(_MADE, None)
    if made is not None and exitstatus == pytest.ExitCode.OK:
        shutil.rmtree(made, ignore_errors=True)


@pytest.hookimpl(trylast=True)  # pytest has put asynchronous tests first, of all files
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the longest files first, or shuffle; every xdist worker comes to the same order."""
    modules: dict[str, list[pytest.Item]] = {}
    for item in sorted(items, key=lambda item: item.nodeid.partition("::")[0]):
        modules.setdefault(item.nodeid.partition("::")[0], []).append(item)
    if ORDER:
        chance = random.Random(int(ORDER))
        shuffled = list(modules.values())
        chance.shuffle(shuffled)
        for module in shuffled:
            chance.shuffle(module)
        items[:] = itertools.chain.from_iterable(shuffled)
    elif workers := int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "0")):
        items[:] = _longest_first(modules, workers)


def _longest_first(modules: dict[str, list[pytest.Item]], workers: int) -> list[pytest.Item]:
    """Order tests by their files, so that each worker begins with some of the longest.

    A worker begins with one of as many equal parts of the list as there are workers, and takes from
    the others' ends when it is done: what is long may not be left to the end.
    """
    long: dict[str, list[pytest.Item]] = {name: [] for name in LONG}
    rest: list[pytest.Item] = []
    for file in sorted(modules):
        name = next((name for name in LONG if file.startswith(name)), "")
        long.get(name, rest).extend(modules[file])
    count = sum(map(len, modules.values()))
    parts: list[list[pytest.Item]] = [[] for _ in range(workers)]
    for number, found in enumerate(long.values()):
        parts[number % workers] += found
    for number, part in enumerate(parts):
        size = count * (number + 1) // workers - count * number // workers
        room = max(0, size - len(part))
        part.extend(rest[:room])
        del rest[:room]
    return [*itertools.chain.from_iterable(parts), *rest]


def pytest_sessionstart() -> None:
    """Collect no garbage while tests are collected: nearly all that is made then stays."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Leave what was made until here out of every collection of garbage, and collect seldom.

    As often as an interpreter does it by itself, it takes a tenth of a worker's time.
    """
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)
    gc.enable()


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Run asynchronous tests on the event loop of production."""
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture(autouse=True)
def log_as_before() -> Iterator[None]:
    """Take back what a test does to the log of its process."""
    yield
    structlog.configure(**_LOG)


@pytest.fixture(scope="session")
def postgres_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of a server with a migrated database, which each worker copies."""
    return once(tmp_path_factory, "postgres", _make_template) / "postgres"


@pytest.fixture(scope="session")
def postgres_url(postgres_files: Path) -> Iterator[str]:
    """Address of the database ``opentill`` of an empty server that lasts as long as the worker.

    Writes are not synced: no test of the worker survives a power cut. Tests that do kill servers
    start an ``EmbeddedPostgres`` of their own.
    """
    # Not in pytest's own directory: every pytest that starts closes that to other users, and
    # PostgreSQL runs as another user if we are root.
    with tempfile.TemporaryDirectory(prefix="opentill-test-") as directory:
        copy(postgres_files, Path(directory) / "postgres")
        with (
            EmbeddedPostgres.start(Path(directory), durable=False) as server,
            _tethered(int((Path(directory) / "postgres/postmaster.pid").read_text().split()[0])),
        ):
            yield server.url


def _make_template(place: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="opentill-test-") as directory:
        if BEGUN:
            copy(Path(BEGUN), Path(directory) / "postgres")
        with EmbeddedPostgres.start(Path(directory), durable=False) as server:
            url = server.url
            if not BEGUN:
                _sql(url, f"create database {TEMPLATE}")
            # In a thread: a browser test may have left a running event loop in this one.
            _in_thread(lambda: asyncio.run(migrations.migrate(named(url, TEMPLATE))))
        copy(Path(directory) / "postgres", place / "postgres")


@pytest.fixture(scope="session")
def through(postgres_url: str) -> Iterator[Callable[[str], str]]:
    """Lead the address of a database through a PgBouncer, if the run is to; else leave it."""
    if not POOLED:
        yield lambda url: url
        return
    with pooler.running(postgres_url, sessions=20) as lead:
        yield lead


@contextmanager
def _tethered(process: int) -> Iterator[None]:
    """Stop a server even if this process is killed: a shell waits for its end of the pipe."""
    command = ["sh", "-c", 'read -r done || kill -INT "$0"', str(process)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True) as shell:
        yield
        shell.communicate(b"done\n")


@pytest.fixture(scope="session")
def template(postgres_url: str) -> str:
    """Name of a migrated database that nobody connects to."""
    return TEMPLATE


@pytest.fixture(scope="session")
def databases(postgres_url: str, template: str) -> Iterator[Databases]:
    """Migrated databases, used again and again."""
    with Databases(postgres_url, template) as made:
        yield made


@pytest.fixture
def make_database(
    databases: Databases, through: Callable[[str], str]
) -> Iterator[Callable[[], str]]:
    """Make fresh migrated databases; each call gives the address of one. Gone after the test."""
    made: list[str] = []

    def make() -> str:
        made.append(databases.take())
        return through(made[-1])

    yield make
    for url in made:
        databases.give_back(url)


@pytest.fixture
def database_url(make_database: Callable[[], str]) -> str:
    """Address of a fresh migrated database that only this test uses."""
    return make_database()


@pytest.fixture
def empty_database_url(postgres_url: str, through: Callable[[str], str]) -> Iterator[str]:
    """Address of a fresh database without any table."""
    name = f"empty_{next(_numbers)}"
    _sql(postgres_url, f"create database {name}")
    yield through(named(postgres_url, name))
    _sql(postgres_url, f"drop database {name} with (force)")


@pytest.fixture
def settings(database_url: str, tmp_path: Path) -> Settings:
    """Settings of a deployment on a fresh database, with test secrets and without rate limits."""
    return Settings(
        database_url=database_url,
        data_dir=tmp_path,
        secret_key="test-secret-key-test-secret-key-0123",
        sandbox_secret="test-sandbox-secret-0123456789abcd",
        limit_ip_per_minute=0,
        limit_checkouts_per_minute=0,
        limit_payments_per_minute=0,
        db_prepared=not POOLED,
    )


def _sql(url: str, statement: str) -> None:
    """Run one statement with psql, which needs no event loop."""
    _, programs = find_programs()
    subprocess.run(
        [str(programs / "psql"), "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", url, "-c", statement],
        check=True,
        capture_output=True,
    )


def _in_thread(run: Callable[[], object]) -> None:
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as executor:
        executor.submit(run).result()
