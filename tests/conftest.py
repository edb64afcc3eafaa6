"""Fixtures of all tests, and the set-up of a run.

Each worker of pytest-xdist has a PostgreSQL of its own, with migrated databases, and a running
server and sandbox bank. The set-up has a few measures that make runs faster; each says how much it
saves.
"""

import asyncio
import functools
import gc
import itertools
import os
import random
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import httpcore2
import hypothesis
import pytest
import structlog
import uvloop

from opentill.core.settings import Settings
from opentill.db import connection, migrations
from opentill.gateways.alipay import keys as alipay_keys
from opentill.gateways.wechat_pay import keys as wechat_pay_keys
from opentill.server.embedded import cluster
from opentill.server.embedded.postgres import EmbeddedPostgres
from opentill.server.embedded.programs import find_programs
from support import commands, pooler
from support.api_server import api_server, clock, shop
from support.commands import fork_server
from support.databases import Databases, database_address
from support.deployment import copy_directory, deployment, migrated
from support.isolation import ISOLATION
from support.once import once
from support.pooler import POOLED
from support.run_directory import MEMORY, has_room, run_directory
from support.sandbox_bank import bank_url
from support.transactions import (
    close_kept_connections,
    db,
    module_database_url,
    rollback_connection,
    rollback_database_url,
    run_rolled_back,
    tx,
)

__all__ = [
    "api_server",
    "bank_url",
    "clock",
    "close_kept_connections",
    "db",
    "deployment",
    "fork_server",
    "migrated",
    "module_database_url",
    "rollback_connection",
    "rollback_database_url",
    "run_rolled_back",
    "shop",
    "tx",
]

TEMPLATE: Final = "opentill_template"
# Options of whole runs, see docs/testing.md. ORDER is the seed of a random order of the files and
# of the tests in each; ``support/isolation.py`` has another one.
ORDER: Final = os.environ.get("OPENTILL_TEST_ORDER", "")
# The directory of a PostgreSQL whose template is already migrated. Tests of the recipes set it when
# they start pytest in a copy of the project.
POSTGRES_FILES: Final = os.environ.get("OPENTILL_TEST_POSTGRES", "")
# Files with long tests, which run first: at the end of a run, other pytest workers would wait for
# them.
LONG_TESTS: Final = (
    "tests/browser/",
    "tests/test_recipes.py",
    "tests/cli/test_readme.py",
    "tests/cli/test_running.py",
    "tests/cli/test_starting.py",
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
_numbers: Final = itertools.count(1)
_SUCCEEDED: Final = pytest.StashKey[bool]()
_DIRECTORY: Final = pytest.StashKey[Path]()  # of the temporary files of this run
pytest.register_assert_rewrite("exploration")  # failed assertions in this module show their values


# `make test` always runs the same examples, `make test-nightly` more and new ones. There is no
# deadline, because other processes may slow an example down.
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

# structlog's default traceback contains the local variables of each frame, which takes a second for
# each error that a test causes.
structlog.configure(
    processors=[
        structlog.processors.add_log_level,
        structlog.dev.ConsoleRenderer(
            colors=False, exception_formatter=structlog.dev.plain_traceback
        ),
    ]
)
_LOG: Final = structlog.get_config()

# Each client takes 20 ms of CPU time to read the system's certificates, and tests create thousands
# of clients: here all clients of a process share one context.
httpcore2.default_ssl_context = functools.cache(httpcore2.default_ssl_context)

# A private RSA key's primes are checked when it is read, for 30 ms; tests read the same few keys.
for _keys in (alipay_keys, wechat_pay_keys):
    _keys.load_der_private_key = functools.cache(_keys.load_der_private_key)

cluster.SETTINGS = dict(  # type: ignore[misc] # of each server that a test starts in this process
    cluster.SETTINGS, default_transaction_isolation=ISOLATION
)
if POOLED:
    _options = connection.options
    connection.options = lambda *, prepared=True: _options(prepared=False)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Give each run its own temporary directory, and all pytest workers one fork server.

    pytest's default directory is shared by all runs, and each new run makes it private for a
    moment. Tests of root run PostgreSQL as another user, which cannot start below it then.
    """
    if hasattr(config, "workerinput"):
        return
    stack = ExitStack()
    config.add_cleanup(stack.close)
    if "TMPDIR" not in os.environ and has_room(MEMORY):
        config.stash[_DIRECTORY] = stack.enter_context(run_directory(MEMORY))
        os.environ["TMPDIR"] = tempfile.tempdir = str(config.stash[_DIRECTORY])
    if config.option.basetemp is None:
        if _DIRECTORY not in config.stash:
            config.stash[_DIRECTORY] = Path(tempfile.mkdtemp(prefix="opentill-tests-"))
        # The name is short, because the path of a socket has at most 107 bytes.
        config.option.basetemp = str(config.stash[_DIRECTORY] / "t")
    stack.callback(_remove_files_of_success, config)
    os.environ.pop(commands.SHARED, None)  # an outer run of pytest may have set it
    if config.getoption("numprocesses", None):
        os.environ[commands.SHARED] = stack.enter_context(commands.running_fork_server())


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Remember whether the run succeeded."""
    session.config.stash[_SUCCEEDED] = exitstatus == pytest.ExitCode.OK


def _remove_files_of_success(config: pytest.Config) -> None:
    """Remove the files of a successful run; those of a failed one may help to find the cause."""
    directory = config.stash.get(_DIRECTORY, None)
    if directory is not None and config.stash.get(_SUCCEEDED, False):
        shutil.rmtree(directory, ignore_errors=True)


# Runs after pytest-asyncio, which moves asynchronous tests to the front.
@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Order tests by file: the long ones first, or all of them randomly.

    pytest-xdist gives each of its workers an equal part of this list; a worker that is done takes
    tests from the ends of other workers' parts.
    """
    files: dict[str, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.nodeid.partition("::")[0], []).append(item)
    names = sorted(files, key=lambda file: (_rank(file), file))
    if ORDER:
        rng = random.Random(int(ORDER))
        rng.shuffle(names)
        for name in names:
            rng.shuffle(files[name])
    items[:] = itertools.chain.from_iterable(files[name] for name in names)


def _rank(file: str) -> int:
    """Return the file's place in ``LONG_TESTS``, or one after all of them."""
    return next((n for n, name in enumerate(LONG_TESTS) if file.startswith(name)), len(LONG_TESTS))


def pytest_sessionstart() -> None:
    """Disable garbage collection while pytest imports tests: nearly all objects stay."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Exempt the objects of the imports from garbage collection, and run it less often.

    With Python's defaults it takes a tenth of a pytest worker's time, because it visits the objects
    of 8,000 tests again and again.
    """
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)
    gc.enable()


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Run asynchronous tests on the event loop of production."""
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture(autouse=True)
def restore_logging() -> Iterator[None]:
    """Undo a test's changes of the logging configuration."""
    yield
    structlog.configure(**_LOG)


@pytest.fixture(scope="session")
def postgres_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a PostgreSQL with a migrated database, which each pytest worker copies."""
    return once(tmp_path_factory, "postgres", _make_template) / "postgres"


@pytest.fixture(scope="session")
def postgres_url(postgres_files: Path) -> Iterator[str]:
    """Address of the database ``opentill`` of this pytest worker's PostgreSQL.

    It does not sync its writes. Tests that kill servers start an ``EmbeddedPostgres`` of their own.
    """
    # The files are not in pytest's directory, because PostgreSQL may run as another user, who
    # cannot search it.
    with tempfile.TemporaryDirectory(prefix="opentill-test-") as directory:
        copy_directory(postgres_files, Path(directory) / "postgres")
        with (
            EmbeddedPostgres.start(Path(directory), durable=False) as server,
            _stopped_after_this_process(
                int((Path(directory) / "postgres/postmaster.pid").read_text().split()[0])
            ),
        ):
            yield server.url


def _make_template(folder: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="opentill-test-") as directory:
        if POSTGRES_FILES:
            copy_directory(Path(POSTGRES_FILES), Path(directory) / "postgres")
        with EmbeddedPostgres.start(Path(directory), durable=False) as server:
            url = server.url
            if not POSTGRES_FILES:
                _sql(url, f"create database {TEMPLATE}")
            # A thread is needed, because a browser test may have left a running event loop in this
            # one.
            with ThreadPoolExecutor(1) as executor:
                executor.submit(
                    asyncio.run, migrations.migrate(database_address(url, TEMPLATE))
                ).result()
        copy_directory(Path(directory) / "postgres", folder / "postgres")


@pytest.fixture(scope="session")
def pooler_url(postgres_url: str) -> Iterator[Callable[[str], str]]:
    """A function that returns a database's address at the run's PgBouncer, if it has one."""
    if not POOLED:
        yield lambda url: url
        return
    with pooler.running_pooler(postgres_url, sessions=20) as pooler_address:
        yield pooler_address


@contextmanager
def _stopped_after_this_process(process: int) -> Iterator[None]:
    """Stop a server at the end of the block, or when this process is killed.

    A shell reads the end of its input when this process ends.
    """
    command = ["sh", "-c", 'read -r done || kill -INT "$0"', str(process)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True) as shell:
        yield
        shell.communicate(b"done\n")


@pytest.fixture(scope="session")
def template(postgres_url: str) -> str:
    """Name of a migrated database without connections, to be cloned."""
    return TEMPLATE


@pytest.fixture(scope="session")
def databases(postgres_url: str, template: str) -> Iterator[Databases]:
    """This pytest worker's migrated databases, which tests use one after the other."""
    with Databases(postgres_url, template) as databases:
        yield databases


@pytest.fixture
def make_database(
    databases: Databases, pooler_url: Callable[[str], str]
) -> Iterator[Callable[[], str]]:
    """A function that returns the address of an empty migrated database for this test."""
    urls: list[str] = []

    def make() -> str:
        urls.append(databases.borrow())
        return pooler_url(urls[-1])

    yield make
    for url in urls:
        databases.give_back(url)


@pytest.fixture
def database_url(make_database: Callable[[], str]) -> str:
    """Address of an empty migrated database for this test."""
    return make_database()


@pytest.fixture
def empty_database_url(postgres_url: str, pooler_url: Callable[[str], str]) -> Iterator[str]:
    """Address of a database without any table."""
    name = f"empty_{next(_numbers)}"
    _sql(postgres_url, f"create database {name}")
    yield pooler_url(database_address(postgres_url, name))
    _sql(postgres_url, f"drop database {name} with (force)")


@pytest.fixture
def settings(database_url: str, tmp_path: Path) -> Settings:
    """Settings of a deployment on an empty database, with test secrets, without rate limits."""
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
