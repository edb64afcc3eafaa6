"""The examples of the README and of linked documents run, also a second time."""

import asyncio
import csv
import io
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest
import typer

from opentill.cli import build
from opentill.cli import demo as demonstration
from opentill.client import AsyncClient
from opentill.core.settings import Settings
from support.commands import ForkServer, running_fork_server
from support.deployment import TIMEOUT_S, Deployment
from support.examples import is_night
from support.webhook_receiver import receiving

TOP: Final = Path(__file__).parents[2]
README: Final = (TOP / "README.md").read_text()
DOCS: Final = TOP / "docs"
LIFECYCLE: Final = (DOCS / "payment-lifecycle.md").read_text()


def examples(text: str, language: str) -> list[str]:
    """Return the code blocks of a document in a language."""
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


SHELL: Final = examples(README, "sh")
PYTHON: Final = examples((DOCS / "python-quickstart.md").read_text(), "python")
MONEY: Final = examples(LIFECYCLE, "sh")
EPAY: Final = examples((DOCS / "epay-shops.md").read_text(), "sh")
# Commands run in an interpreter that has imported only libraries, so that the first command of each
# group imports its modules as a new process does. At night they also run in an interpreter that has
# imported all modules.
FORKS: Final = ["libraries", "fork_server"] if is_night() else ["libraries"]
CARD: Final = {"number": "4242424242424242", "exp": "12/40", "csc": "123"}


class Demo:
    """A running ``opentill demo``, its output, and a terminal in another directory."""

    def __init__(self, deployment: Deployment, printed: str) -> None:
        """``printed``, the output, ends with the first line for a second terminal."""
        self.deployment = deployment
        self.printed = printed
        self.line = printed.rstrip().splitlines()[-1].strip()
        self.other_folder = deployment.directory / "elsewhere"
        self.other_folder.mkdir()

    def shell(self, script: str, folder: Path | None = None) -> str:
        """Run ``self.line`` and a script in a second terminal; ``folder`` comes first in PATH."""
        base = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/", "LANG": "C.UTF-8"}
        inherited = ("PYTHONPATH", "OPENTILL_PORT", "OPENTILL_SANDBOX_PORT")
        environ = base | {name: self.deployment.environ[name] for name in inherited}
        path = f"PATH={folder}:$PATH" if folder else ""
        process = subprocess.run(
            ["bash", "-c", f"set -eu\n{self.line}\n{path}\n{self.ports(script)}"],
            env=environ, cwd=self.other_folder, capture_output=True, text=True, check=False,
            timeout=180,
        )  # fmt: skip
        assert process.returncode == 0, process.stdout + process.stderr
        return process.stdout

    def ports(self, text: str) -> str:
        """Replace the ports of the documents by those of the test."""
        return text.replace(":8080", f":{self.deployment.port}").replace(
            ":8081", f":{self.deployment.sandbox_port}"
        )

    def pay(self, url: str) -> None:
        """Pay as a customer, and wait for the confirmation."""
        with httpx2.Client(trust_env=False, follow_redirects=True) as browser:
            form = {"email": "ann@example.com", "method": "CREDIT_CARD", "lang": "en"}
            page = browser.post(url, data=form).text
            bank_page = re.search(self.ports(r"http://127.0.0.1:8081/pay/\w+"), page)
            assert bank_page is not None, page
            browser.post(bank_page[0], data=CARD)
            end = time.monotonic() + TIMEOUT_S
            while (
                "Payment received" not in browser.get(url, headers={"accept-language": "en"}).text
            ):
                assert time.monotonic() < end, "the payment is not confirmed"
                time.sleep(0.02)


@pytest.fixture(scope="module")
def libraries() -> Iterator[ForkServer]:
    """A fork server whose children import our modules, like commands in a new interpreter."""
    with running_fork_server("libraries") as path:
        yield ForkServer(path)


@pytest.fixture(scope="module")
def demo(fork_server: ForkServer) -> Iterator[Demo]:
    """Run the demonstration, and check the books at the end."""
    with tempfile.TemporaryDirectory(prefix="opentill-test-") as directory:
        deployment = Deployment(Path(directory), fork_server)
        log = Path(directory) / "stderr.log"
        with log.open("w") as stderr:
            process = subprocess.Popen(
                [sys.executable, "-m", "opentill", "demo"],
                env=deployment.environ | {"PYTHONUNBUFFERED": "1"}, cwd=directory,
                stdout=subprocess.PIPE, stderr=stderr, text=True,
            )  # fmt: skip
        assert process.stdout is not None
        printed = ""
        try:
            while not (line := process.stdout.readline()).startswith("  . "):
                assert process.poll() is None, printed + log.read_text()[-3000:]
                printed += line
            yield Demo(deployment, printed + line)
            assert '"violations":[]' in deployment.run_checked("ledger", "check", "--json")
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(TIMEOUT_S)
            process.stdout.close()


def test_the_readme_shows_the_output_of_the_demonstration(demo: Demo) -> None:
    example = re.search(r"```text\n(OpenTill .*?)```", README, re.DOTALL)
    assert example is not None
    printed = demo.printed.replace(str(demo.deployment.directory / "data"), "/…/opentill-data")
    for prefix in ("cs_", "svc_live_", "/invite/"):
        printed = re.sub(rf"{prefix}[\w-]+", f"{prefix}…", printed)
    assert printed == demo.ports(example[1])


def test_the_sandbox_bank_reports_the_same_payments_refunds_and_disputes(demo: Demo) -> None:
    process = demo.deployment.run("reconcile", "sandbox")
    assert (process.returncode, process.stdout) == (0, "")
    assert process.stderr.endswith(", 0 differences\n")


def test_the_demonstration_sends_webhooks_to_a_shop_on_this_machine(demo: Demo) -> None:
    key = json.loads((demo.deployment.directory / "data/demo.json").read_bytes())["key"]

    async def receive_event() -> None:
        url = f"http://127.0.0.1:{demo.deployment.port}"
        async with receiving() as receiver, AsyncClient(url, key, trust_env=False) as client:
            endpoint = await client.webhook_endpoints.create(receiver.url)
            await client.webhook_endpoints.send_test_event(endpoint.id)
            async with asyncio.timeout(TIMEOUT_S):
                while not receiver.accepted:
                    await asyncio.sleep(0.05)
            await client.webhook_endpoints.delete(endpoint.id)

    asyncio.run(receive_event())


@pytest.mark.parametrize(
    ("settings", "allows"),
    [
        (Settings(), True),
        (Settings(host="::1", public_url="http://localhost:8080"), True),
        (Settings(host="0.0.0.0"), False),
        (Settings(public_url="https://demo.example.com"), False),
    ],
)
def test_only_a_demonstration_for_this_machine_sends_webhooks_to_it(
    settings: Settings, allows: bool
) -> None:
    allowed = demonstration.with_webhooks_to_loopback(settings)
    assert allowed.outgoing_http is allows
    assert bool(allowed.outgoing_allow) is allows


def test_the_demonstration_has_exchange_rates(demo: Demo) -> None:
    rates = json.loads(demo.deployment.run_checked("rates", "list", "--json"))
    assert {"CNY", "EUR", "HKD", "JPY"} <= {rate["base"] for rate in rates}
    assert {rate["quote"] for rate in rates} == {"USD"}


def test_every_shell_example_except_the_first_is_run() -> None:
    """The first example runs ``make demo``, and ``make test``, which runs this test."""
    assert (len(SHELL), len(PYTHON), len(MONEY), len(EPAY)) == (3, 2, 1, 2)
    assert "make demo" in SHELL[0]
    assert not re.search(r"mer_…|order_…", "".join((*SHELL, *MONEY, *EPAY)))


@pytest.mark.parametrize("time_of_day", ["first", "again"])
def test_the_example_of_a_first_payment_by_curl_runs(demo: Demo, time_of_day: str) -> None:
    order, payment = SHELL[1:3]
    output = demo.shell(order + 'echo "CART=$CART ORDER=$ORDER"\n')
    url, variables = output.splitlines()[-2:]
    demo.pay(url)
    # Each ``shell`` is a new process, but in a user's terminal the variables and functions remain.
    functions = order.partition("CART=")[0]
    output = demo.shell(f"{functions}export {variables}\n{payment}")
    assert '"status":"PAID"' in output
    assert f'"refundNo":"{variables.split()[0].removeprefix("CART=")}"' in output
    assert '"type":"FREEZE"' in output
    assert variables.rpartition("=")[2] in (demo.other_folder / "orders.csv").read_text()


@pytest.mark.parametrize("time_of_day", ["first", "again"])
def test_the_example_of_a_first_payment_by_python_runs(demo: Demo, time_of_day: str) -> None:
    names: dict[str, Any] = {}
    key = re.search(r"KEY=(\S+)", (demo.deployment.directory / "data/demo.env").read_text())
    assert key is not None
    before = os.environ.get("KEY")
    os.environ["KEY"] = key[1]
    try:
        exec(demo.ports(PYTHON[0]), names)  # noqa: S102 - our own documents
    finally:
        os.environ.pop("KEY") if before is None else os.environ.update(KEY=before)
    demo.pay(names["session"].url)
    exec(demo.ports(PYTHON[1]).replace('"orders.csv"', "target"),  # noqa: S102 - our own documents
         names | {"target": demo.other_folder / "python.csv"})  # fmt: skip
    names["client"].close()
    assert (demo.other_folder / "python.csv").read_text().startswith("id,")


@pytest.mark.parametrize("forks", FORKS, ids=["first", "again"][: len(FORKS)])
def test_the_examples_of_balances_and_of_an_epay_shop_run(
    demo: Demo, request: pytest.FixtureRequest, tmp_path: Path, forks: str
) -> None:
    folder = request.getfixturevalue(forks).command(tmp_path).parent
    if forks == "libraries":
        (tmp_path / "later").mkdir()
        later = request.getfixturevalue("fork_server").command(tmp_path / "later")
        folder = _first_of_each(folder / "opentill", later)
    output = demo.shell(
        MONEY[0]
        + 'echo "KEY $KEY SHOP_KEY $SHOP_KEY MERCHANT $MERCHANT ORDER $ORDER"\n'
        + "".join(EPAY),
        folder,
    )
    ids = re.search(r"KEY (\S+) SHOP_KEY (\S+) MERCHANT (\S+) ORDER (\S+)", output)
    assert ids is not None
    demo_key, shop_key, merchant, order = ids.groups()
    # The example leaves KEY unchanged, so the first example can run again.
    assert demo_key in demo.printed
    assert demo_key != shop_key
    statement = demo.shell(
        f"opentill statement {merchant}\nopentill orders show {order} --json", folder
    )
    _assert_statement(list(csv.DictReader(io.StringIO(statement.rpartition("\n{")[0]))))
    assert '"status":"SETTLED"' in statement
    assert "/epay/" in output
    assert "BOTH" in output


def _first_of_each(first: Path, later: Path) -> Path:
    """Write a program that runs ``first`` once per group and then ``later``; return its folder."""
    folder = first.parent / "each"
    folder.mkdir()
    marker = f'"{folder}/$1.seen"'
    script = f'[ -e {marker} ] && exec {later} "$@"\n: > {marker}\nexec {first} "$@"\n'
    (folder / "opentill").write_text(f"#!/bin/sh\n{script}")
    (folder / "opentill").chmod(0o755)
    return folder


def _assert_statement(rows: list[dict[str, str]]) -> None:
    """Assert that a statement adds up and equals the documented one."""
    moves = [row for row in rows if row["row"] == "MOVEMENT"]
    accounts = ("pending", "available", "frozen", "reserve")
    documented = re.findall(r"^\| `(\w+)` \| [^|]+ \| (.*) \|$", LIFECYCLE, re.MULTILINE)
    assert [
        (row["type"], " | ".join(row[f"{account}After"] for account in accounts)) for row in moves
    ] == documented
    first, last = rows[0], rows[-1]
    assert (first["row"], last["row"]) == ("OPENING", "CLOSING")
    for account in accounts:
        moved = sum(Decimal(row[account]) for row in moves)
        assert Decimal(first[f"{account}After"]) + moved == Decimal(last[f"{account}After"])
        assert Decimal(last[account]) == moved
    assert last["availableAfter"] == "9.60"
    assert last["pendingAfter"] == last["frozenAfter"] == last["reserveAfter"] == "0.00"


def test_all_commands_except_the_documented_ones_print_json() -> None:
    text = (DOCS / "commands.md").read_text()
    exceptions = re.search(r"All commands have `--json`, except (.*?)\.\n", text, re.DOTALL)
    assert exceptions is not None
    without = {" ".join(path) for path, options in _commands() if "--json" not in options}
    assert without == set(re.findall(r"`([\w ]+)`", exceptions[1]))


def _commands() -> Iterator[tuple[list[str], set[str]]]:
    """Yield every command's words with its options."""
    pending: list[tuple[list[str], Any]] = [([], typer.main.get_command(build()))]
    while pending:
        words, command = pending.pop()
        if (children := getattr(command, "commands", None)) is None:
            yield words, {option for parameter in command.params for option in parameter.opts}
        else:
            pending += [([*words, name], child) for name, child in children.items()]
