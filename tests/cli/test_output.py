"""The output of commands: tables within the terminal's width, and JSON."""

import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import typer

from cli.database import in_database
from opentill.cli import build, commands, readable, table, times
from support.commands import SOURCE, Commands, opentill
from support.world import create_order_in

__all__ = ["opentill"]

IDS: Final = ("po_01J5K3M9Q8Z7X6W5V4T3S2R1Q0", "mer_01J5K3M9Q8Z7X6W5V4T3S2R1Q0")
TIME: Final = 1_795_358_405_678  # 2026-11-22 14:40:05.678 UTC
DAY: Final = 86_400_000
ROWS: Final = (
    {"id": IDS[0], "merchantId": IDS[1], "amount": "1250.00", "fee": "0.30", "currency": "USD",
     "reason": "a reason that is longer than a line of any terminal " * 3, "createdAt": TIME},
    {"id": IDS[0], "merchantId": IDS[1], "amount": "10.00", "fee": "0.00", "currency": "JPY",
     "reason": "港口書店" * 4, "createdAt": TIME},
)  # fmt: skip


def _table(width: int | None) -> list[str]:
    names = readable.fields(ROWS[0])
    texts = [[readable.text(name, row) for name in names] for row in ROWS]
    head, lines = table.table([readable.heading(name) for name in names], texts, width)
    return head + lines


@pytest.mark.parametrize("width", [200, 120, 80, 40])
def test_a_table_fits_and_cuts_no_id_amount_or_time(width: int) -> None:
    lines = _table(width)
    assert max(map(table.cells, lines)) <= width
    for text in (*IDS, "1250.00 USD", "10 JPY", "0 JPY", "港口書店" * 4):
        assert any(text in line for line in lines), text
    words = re.sub(r"\s+", " ", " ".join(lines))
    assert "2026-11-22 14:40:05" in words
    assert ROWS[0]["reason"].strip() in words  # type: ignore[union-attr] # a text


def test_a_row_in_a_pipe_is_one_line() -> None:
    head, *lines = _table(None)
    assert len(lines) == len(ROWS)
    assert head.split("  ")[0] == "id"
    assert "currency" not in head  # no column is needed: each amount contains its currency


@pytest.mark.parametrize("width", [80, 40])
def test_a_record_fits_the_width(width: int) -> None:
    pairs = [(readable.heading(name), readable.text(name, ROWS[0])) for name in ROWS[0]]
    lines = table.record(pairs, width)
    assert max(map(len, lines)) <= width
    assert any(line.endswith(IDS[0]) for line in lines)


@pytest.mark.parametrize(
    ("name", "value", "output"),
    [
        ("createdAt", TIME, "2026-11-22 14:40:05"),
        ("createdAt", None, ""),
        ("livemode", False, "no"),
        ("metadata", {"cart": "茶"}, '{"cart": "茶"}'),
        ("events", ["order.paid", "order.closed"], "order.paid, order.closed"),
        ("overdraft", "123.45", "123.45 USD"),
        ("userRefundAmountUsd", "-1.20", "-1.20 USD"),
        ("platformFeeRate", "0.04", "0.04"),
        ("reason", "two\nlines\x1b[2J", "two\\nlines\\u001b[2J"),
    ],
)
def test_values_are_formatted(name: str, value: object, output: str) -> None:
    assert readable.text(name, {name: value, "settlementCurrency": "USD"}) == output


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("2026-11-22", TIME - 52_805_678, TIME - 52_805_678 + DAY - 1),
        ("2026-11-22 14:40", TIME - 5_678, TIME - 5_678),
        ("2026-11-22T14:40:05Z", TIME - 678, TIME - 678),
        ("2026-11-22 14:40:05.678 UTC", TIME, TIME),
        ("2026-11-22T22:40:05+08:00", TIME - 678, TIME - 678),
        (str(TIME), TIME, TIME),
        ("today", TIME - 52_805_678, TIME - 52_805_678 + DAY - 1),
        ("yesterday", TIME - 52_805_678 - DAY, TIME - 52_805_678 - 1),
        ("7d", TIME - 7 * DAY, TIME - 7 * DAY),
        ("1d12h ago", TIME - DAY * 3 // 2, TIME - DAY * 3 // 2),
    ],
)
def test_times_are_parsed(text: str, first: int, last: int) -> None:
    period = (
        times.parse_relative(text, TIME) if times.is_relative(text) else times.parse_absolute(text)
    )
    assert period == (first, last)


@pytest.mark.parametrize(
    "text",
    ["", "22.11.2026", "2026-02-30", "2026-11-22 25:00", "2026-11-22Z", "11/22/2026", "7w", "٧d",
     "2026-11-22 14:30 CET", "20261122"],
)  # fmt: skip
def test_an_invalid_time_is_refused(text: str) -> None:
    assert not times.is_relative(text)
    assert times.parse_absolute(text) is None


def test_an_error_names_the_option_with_its_dashes_and_once(opentill: Commands) -> None:
    shop = opentill.json("merchants", "create", "Harbour Books")["id"]
    for words, line in (
        (("statement", shop, "--from", "x"), "opentill: --from must be a time in UTC"),
        (("balance", "freeze", shop, "1.00"), "opentill: --reference must be text of 1 to 64"),
        (("orders", "list", shop, "--email", ""), "opentill: --email must not be empty"),
        (("statement", shop, "--from", ""), "opentill: --from must not be empty"),
        (("rates", "set", "EUR", "USD", "x"), "opentill: rate must be a decimal number"),
    ):
        assert opentill.refusal(*words).startswith(line)


def test_every_argument_says_what_it_takes() -> None:
    def arguments(command: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[str, str | None]]:
        for name, child in getattr(command, "commands", {}).items():
            yield from arguments(child, (*words, name))
        for parameter in command.params:
            if parameter.param_type_name == "argument":
                yield " ".join((*words, parameter.name)), parameter.help

    helps = dict(arguments(typer.main.get_command(build())))
    assert len(helps) > 100
    assert not [name for name, text in helps.items() if not text]


def test_a_command_whose_output_nobody_reads_ends_like_other_tools(opentill: Commands) -> None:
    shop = opentill.json("merchants", "create", "Harbour Books")["id"]
    for words in (("export", shop), ("statement", shop), ("merchants", "list", "--json"), ("-h",)):
        reader, writer = os.pipe()
        os.close(reader)
        errors = opentill.directory / "errors.txt"
        with Path(os.devnull).open() as empty, errors.open("w") as stderr:
            code = opentill.run_on([empty.fileno(), writer, stderr.fileno()], *words)
        os.close(writer)
        assert (code, errors.read_text()) == (141, ""), words


def test_options_accept_times_and_amounts(opentill: Commands) -> None:
    shop = opentill.json("merchants", "create", "Harbour Books", "--dispute-fee", "15.50 USD")
    assert shop["disputeFee"] == "15.50"
    why = ("--reason", "agreed")
    recharge = opentill.json(
        "balance", "recharge", shop["id"], "USD 12.50", "--reference", "R", *why
    )
    assert (recharge["amount"], recharge["createdAt"] > TIME - 10**12) == ("12.50", True)
    for amount, text in (
        ("12.50 EUR", "amount must be in USD, such as '25.00 USD'"),
        ("12.505", "at most two fraction digits, such as '25.00 USD'"),
        ("1,250", "amount must be a decimal number"),
    ):
        words = ("balance", "freeze", shop["id"], amount, "--reference", "F", *why)
        assert text in opentill.refusal(*words)
    assert "12.50 USD" in opentill.text("balance", "show", shop["id"])
    lines = opentill.text("statement", shop["id"], "--from", "yesterday", "--to", "today")
    assert "ADMIN_RECHARGE" in lines
    assert "ADMIN_RECHARGE" not in opentill.text("statement", shop["id"], "--to", "1d")
    refused = opentill.refusal("export", shop["id"], "--from", "soon")
    assert "from must be a time in UTC such as 2026-01-31" in refused
    key = opentill.json("keys", "create", shop["id"], "--expires", "90d", "--name", "Accounting")
    assert 0 < key["expiresAt"] - recharge["createdAt"] - 90 * DAY < DAY
    (listed,) = opentill.json("keys", "list", shop["id"])
    assert (listed["name"], listed["lastUsedAt"]) == (key["name"], None) == ("Accounting", None)


@pytest.fixture
def sale_ids(opentill: Commands) -> dict[str, str]:
    """The ids of a merchant, its settled order and its payout."""
    order = in_database(opentill, lambda tx: create_order_in(tx, "SETTLED"))
    shop = order.merchant_id
    key = opentill.json("keys", "create", shop, "--expires", "30d")["id"]
    why = ("--all", "--reference", "2026-W47", "--reason", "paid out each week, " * 5)
    payout = opentill.json("payouts", "create", shop, *why)["id"]
    hook = opentill.json("webhooks", "add", shop, "https://hooks.example.com/a")
    return {"shop": shop, "order": order.id, "payout": payout, "key": key, "hook": hook["id"]}


# Commands, and the ids that their output must show in full.
SHOWN: Final = {
    "merchants list": ("shop",),
    "merchants show {shop}": ("shop",),
    "merchants terms {shop}": (),
    "keys list {shop}": ("key", "shop"),
    "orders show {order}": ("order", "shop"),
    "orders history {order}": (),
    "payouts list": ("payout", "shop"),
    "payouts due": (),
    "ledger accounts": (),
    "figures show": (),
    "payouts show {payout}": ("payout", "shop"),
    "balance show {shop}": ("shop",),
    "webhooks list": ("hook", "shop"),
    "audit list": ("shop", "key"),
    "statement {shop} --format table": ("order", "payout"),
    "settings": (),
    "clock show": (),
}


@pytest.mark.parametrize("width", [80, 40])
def test_every_list_and_record_fits_and_cuts_no_id(
    opentill: Commands, sale_ids: dict[str, str], width: int
) -> None:
    opentill.environ["COLUMNS"] = str(width)
    for words, ids in SHOWN.items():
        output = opentill.text(*words.format(**sale_ids).split())
        assert "\x1b" not in output, words
        for line in output.splitlines():
            assert table.cells(line) <= width or " " not in line.strip(), (words, line)
        for name in ids:
            assert sale_ids[name] in output, (words, name, output)


def test_progress_is_shown_on_a_terminal_and_erased() -> None:
    code = (
        "import sys, threading, time\nfrom opentill.cli import progress\n"
        "written, now = threading.Event(), progress._Line._now\n"
        "progress._PAUSE_S, progress._Line._now = 3600, lambda line: written.set() or now(line)\n"
        "with progress.progress('quick'):\n pass\n"
        "with progress.progress('checking', 9000) as advance, progress.progress('inside'):\n"
        " advance(1234)\n"
        " written.wait(60) if sys.stderr.isatty() else time.sleep(1.2)"
    )
    reader, terminal = pty.openpty()
    for stderr in (terminal, subprocess.PIPE):
        process = subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(SOURCE)},
            stderr=stderr, stdout=subprocess.PIPE, check=True,
        )  # fmt: skip
        assert (process.stdout, process.stderr or b"") == (b"", b"")
    os.set_blocking(reader, False)  # without output, the read must fail and not wait
    output = re.sub(r"\d+ s\b", "n s", os.read(reader, 1000).decode())
    assert output == "\r\x1b[Kchecking … 1,234 of 9,000, n s\r\x1b[K"
    os.close(reader)
    os.close(terminal)


def test_errors_of_json_are_json_on_standard_error(opentill: Commands) -> None:
    def error(*words: str) -> dict[str, Any]:
        process = opentill.run(*words, "--json")
        assert (process.returncode, process.stdout) == (2, b"")
        (line,) = process.stderr.decode().splitlines()
        document: dict[str, Any] = json.loads(line)
        return document

    missing = error("merchants", "show", "mer_no")
    assert (missing["code"], missing["message"]) == (40401, "Not Found")
    assert missing["error"] == {"reason": "there is no merchant mer_no"}
    assert error("payouts", "list", "--status", "GONE")["error"]["field"] == "status"
    assert error("payouts", "list", "--limit", "many")["error"]["field"] == "limit"
    assert error("payouts", "list", "--limt", "1")["code"] == 40001
    opentill.environ["OPENTILL_PORT"] = "eighty"
    refused = error("merchants", "list")
    assert (refused["code"], "OPENTILL_PORT" in refused["error"]["reason"]) == (50002, True)


def _run(*words: str, **environ: str) -> str:
    """Run a command in a new interpreter, because a fork has already imported modules."""
    process = subprocess.run(
        [sys.executable, "-m", "opentill", *words],
        env={**os.environ, "PYTHONPATH": str(SOURCE), "COLUMNS": "80"} | environ,
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return process.stdout


def test_help_is_grouped_and_imports_no_command() -> None:
    output = _run("-h")
    assert output == _run("--help")
    assert [line.rstrip(":") for line in output.splitlines() if re.match(r"\w[\w ]*:$", line)] == [
        "Options", *commands.SECTIONS,
    ]  # fmt: skip
    assert max(map(len, output.splitlines())) < 80
    assert "Exit codes: 0 done" in output
    code = (
        "import sys\nsys.argv[1:] = ['-h']\nimport opentill.__main__ as main\n"
        "try:\n main.main()\nfinally:\n print([n for n in sys.modules if n.startswith('rich') or "
        "n in ('opentill.cli.orders', 'msgspec', 'asyncio')])"
    )
    process = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(SOURCE)},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert process.stdout.splitlines()[-1] == "[]"


def test_summaries_of_commands_equal_their_own_help() -> None:
    root: Any = typer.main.get_command(build())
    for rows in commands.SECTIONS.values():
        for name, _, summary in rows:
            help_text = " ".join(root.commands[name].help.split())
            assert help_text.startswith(summary.removesuffix(".")), name
    names = [name for rows in commands.SECTIONS.values() for name, _, _ in rows]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_complete_commands(shell: str) -> None:
    assert "_OPENTILL_COMPLETE" in _run(_OPENTILL_COMPLETE=f"source_{shell}")
    completions = _run(
        _OPENTILL_COMPLETE=f"complete_{shell}", COMP_WORDS="opentill rec", COMP_CWORD="1",
        _TYPER_COMPLETE_ARGS="opentill rec", _TYPER_COMPLETE_FISH_ACTION="get-args",
    )  # fmt: skip
    assert "reconcile" in completions
    assert "orders" not in completions
