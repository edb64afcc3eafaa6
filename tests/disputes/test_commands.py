"""The commands ``opentill disputes …`` and ``opentill settle``."""

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from opentill import disputes, orders
from opentill.cli import build, output, settle
from opentill.core.errors import Invalid, NotFound
from opentill.db.database import Db, Tx
from opentill.merchants import Actor
from support import pooler
from support.books import assert_books
from support.commands import USER
from support.world import create_order_in

Run = Callable[..., Any]
REASON = ("--reason", "a letter")


@pytest.fixture
def run(database_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Run a command in this process; return its JSON output or raise its exception."""
    monkeypatch.setenv("OPENTILL_DATABASE_URL", database_url)
    monkeypatch.setenv("OPENTILL_SANDBOX", "yes")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))  # an empty folder contains no stored login
    monkeypatch.setenv("OPENTILL_DB_PREPARED", pooler.prepared_setting(database_url))
    monkeypatch.setenv("OPENTILL_SECRET_KEY", "test-secret-key-test-secret-key-0123")

    def run(*arguments: str) -> Any:
        result = CliRunner().invoke(build(), [*arguments, "--json"])
        if result.exception is not None:
            raise result.exception
        return json.loads(result.stdout)

    return run


@pytest.fixture
def tx(database_url: str) -> Iterator[Callable[[Callable[[Tx], Awaitable[Any]]], Any]]:
    """Run functions in transactions that are committed; check the books after the test."""

    def commit(work: Callable[[Tx], Awaitable[Any]]) -> Any:
        async def run_and_commit() -> Any:
            db = await Db.connect(database_url, 2, acquire_timeout_s=20)
            try:
                return await db.run(work)
            finally:
                await db.close()

        return asyncio.run(run_and_commit())

    yield commit
    commit(assert_books)


def create_order(tx: Any, status: str, **terms: Any) -> orders.Order:
    """Create an order of a new merchant."""
    order: orders.Order = tx(lambda tx: create_order_in(tx, status, **terms))
    return order


def read_audit_log(tx: Any) -> list[tuple[str, ...]]:
    """Return who, action, subject and reason of the audit rows that created no merchant."""
    sql = (
        "select who, action, subject, reason from audit_log where action <> 'merchants create'"
        " order by number"
    )
    rows = tx(lambda tx: tx.fetch(sql))
    return [tuple(row) for row in rows]


def test_commands_open_note_lose_recover_show_and_list_a_dispute(run: Run, tx: Any) -> None:
    order = create_order(tx, "SETTLED")
    dispute = run("disputes", "open", order.id, *REASON)
    assert (dispute["orderId"], dispute["status"], dispute["debit"]) == (order.id, "OPEN", "9.99")
    dispute_id = dispute["id"]
    note = run("disputes", "note", dispute_id, "Proof of delivery")
    assert (note["number"], note["note"]) == (1, "Proof of delivery")
    assert run("disputes", "lose", dispute_id, *REASON)["status"] == "LOST"
    assert run("disputes", "recover", dispute_id, *REASON)["status"] == "RECOVERED"
    details = run("disputes", "show", dispute_id)
    assert [note["note"] for note in details["notes"]] == ["Proof of delivery"]
    assert (details["merchantId"], details["gateway"]) == (order.merchant_id, "sandbox")
    assert [d["id"] for d in run("disputes", "list", "--status", "RECOVERED")] == [dispute_id]
    assert run("disputes", "list", "--merchant", order.merchant_id, "--status", "OPEN") == []
    assert read_audit_log(tx) == [
        (USER, "disputes open", order.id, "a letter"),
        (USER, "disputes note", dispute_id, "Proof of delivery"),
        (USER, "disputes lose", dispute_id, "a letter"),
        (USER, "disputes recover", dispute_id, "a letter"),
    ]


def test_the_operator_sets_a_deadline_and_reads_evidence(
    run: Run, tx: Any, database_url: str, tmp_path: Path
) -> None:
    order = create_order(tx, "SETTLED")
    dispute_id = run("disputes", "open", order.id, *REASON)["id"]
    dispute = run("disputes", "deadline", dispute_id, "2031-01-31", *REASON)
    assert dispute["respondBy"] == 1_927_670_399_999  # the last millisecond of 2031-01-31 (UTC)
    actor = Actor("ada@example.com (per_1)", "on the page of a dispute")
    files = {"letter.pdf": b"%PDF-1 %%EOF", "../receipt.jpg": b"\xff\xd8\xff x \xff\xd9"}

    async def add_files() -> None:
        db = await Db.connect(database_url, 2, acquire_timeout_s=20)
        try:
            for name, content in files.items():
                await disputes.add_evidence(
                    db, order.merchant_id, dispute_id, name, content, actor=actor, now=1
                )
            respond = partial(disputes.respond, who=actor.who, now=2)
            await db.run(lambda tx: respond(tx, order.merchant_id, dispute_id, "CONTESTED"))
        finally:
            await db.close()

    asyncio.run(add_files())
    details = run("disputes", "show", dispute_id)
    assert details["respondBy"] == dispute["respondBy"]
    names = ("response", "respondedAt", "respondedBy")
    assert [dispute[name] for name in names] == [None, None, None]
    assert [details[name] for name in names] == ["CONTESTED", 2, actor.who]
    digests = [hashlib.sha256(content).hexdigest() for content in files.values()]
    fields = ("number", "name", "kind", "size", "sha256")
    assert [tuple(file[field] for field in fields) for file in details["evidence"]] == [
        (1, "letter.pdf", "application/pdf", 12, digests[0]),
        (2, "receipt.jpg", "image/jpeg", 8, digests[1]),
    ]
    out = tmp_path / "evidence"
    for _ in range(2):  # the second run overwrites the same files
        written = run("disputes", "evidence", order.id, "--out", str(out))
    assert [file["path"] for file in written] == [
        str(out / "01-letter.pdf"), str(out / "02-receipt.jpg"),
    ]  # fmt: skip
    assert [path.read_bytes() for path in sorted(out.iterdir())] == [*files.values()]
    (tmp_path / "file").write_text("")
    with pytest.raises(Invalid, match="out must be a directory"):
        run("disputes", "evidence", dispute_id, "--out", str(tmp_path / "file"))
    with pytest.raises(Invalid, match="until must be a time"):
        run("disputes", "deadline", dispute_id, "soon", *REASON)
    assert [row[:3] for row in read_audit_log(tx)] == [
        (USER, "disputes open", order.id),
        (USER, "disputes deadline", f"{dispute_id} until 2031-01-31 23:59:59 UTC"),
        *(
            (actor.who, "disputes evidence", f"{dispute_id} {name} SHA-256 {digest}")
            for name, digest in zip(("letter.pdf", "receipt.jpg"), digests, strict=True)
        ),
    ]
    run("disputes", "win", dispute_id, *REASON)
    with pytest.raises(Invalid, match="must be open"):
        run("disputes", "deadline", dispute_id, "7d", *REASON)


def test_a_partial_dispute_is_won(run: Run, tx: Any) -> None:
    order = create_order(tx, "PAID")
    dispute = run("disputes", "open", order.id, "--amount", "4.00", *REASON)
    assert dispute["amount"] == "4.00"
    assert run("disputes", "win", dispute["id"], *REASON)["status"] == "WON"


def test_an_invalid_command_is_refused_in_one_line_and_changes_nothing(run: Run, tx: Any) -> None:
    order = create_order(tx, "PAID")
    refused_commands: list[tuple[type[Exception], tuple[str, ...]]] = [
        (Invalid, ("open", order.id)),
        (Invalid, ("open", order.id, "--reason", " ")),
        (Invalid, ("open", order.id, "--amount", "10.00", *REASON)),
        (Invalid, ("open", order.id, "--amount", "1.001", *REASON)),
        (Invalid, ("open", order.id, "--amount", "-1", *REASON)),
        (NotFound, ("open", "order_nowhere", *REASON)),
        (NotFound, ("win", "dp_nowhere", *REASON)),
        (NotFound, ("lose", "dp_nowhere", *REASON)),
        (NotFound, ("note", "dp_nowhere", "text", *REASON)),
        (NotFound, ("show", "dp_nowhere")),
        (NotFound, ("list", "--merchant", "mer_nowhere")),
        (Invalid, ("list", "--status", "PAID")),
    ]
    for error, arguments in refused_commands:
        with pytest.raises(error) as failure:
            run("disputes", *arguments)
        assert "\n" not in str(failure.value)
    dispute_id = run("disputes", "open", order.id, *REASON)["id"]
    for arguments in (("open", order.id), ("recover", dispute_id)):
        with pytest.raises(Invalid):
            run("disputes", *arguments, *REASON)
    assert len(read_audit_log(tx)) == 1


def test_orders_are_settled_by_command(run: Run, tx: Any) -> None:
    # The orders were paid long ago, so their settlement is due. The reserve is held by a movement
    # of its own.
    order, other_order = create_order(tx, "PAID", reserve_rate="0.1"), create_order(tx, "PAID")
    planned = run("settle", "--merchant", order.merchant_id, "--dry-run")
    assert planned == [
        {
            "merchantId": order.merchant_id, "orderId": order.id, "status": "SETTLED",
            "settled": "9.59", "reserve": "0.96", "currency": "USD",
        },
    ]  # fmt: skip
    assert read_audit_log(tx) == []
    assert run("settle", "--merchant", order.merchant_id, *REASON) == planned
    assert [row["orderId"] for row in run("settle", *REASON)] == [other_order.id]
    assert run("settle", *REASON) == []
    assert [row[:3] for row in read_audit_log(tx)] == [
        (USER, "settle", order.merchant_id), (USER, "settle", other_order.merchant_id),
    ]  # fmt: skip


def test_settling_many_orders_lists_the_first_and_sums_all(
    run: Run, tx: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command does not list all of them: the settlements of a year may not fit into memory."""
    monkeypatch.setattr(settle, "MOST_SHOWN", 1)
    due_orders = [create_order(tx, "PAID", reserve_rate="0.1") for _ in range(3)]
    messages: list[str] = []
    monkeypatch.setattr(output, "say", messages.append)
    planned = run("settle", "--dry-run")
    first_order = min(due_orders, key=lambda order: order.merchant_id)
    assert [row["orderId"] for row in planned] == [first_order.id]
    assert run("settle", *REASON) == planned
    assert messages == ["and 2 more; in all 3 orders: settled 28.77 USD, reserve 2.88 USD"] * 2
    assert run("settle", "--dry-run") == []


def test_orders_are_settled_early_by_command(run: Run, tx: Any) -> None:
    terms = {"settlement_delay_days": 365}
    order, other_order = create_order(tx, "PAID", **terms), create_order(tx, "PAID", **terms)
    due_at = "due_at + 10000000000000"  # over three hundred years later
    postpone = f"update orders set due_at = {due_at}, settle_at = {due_at}"
    tx(lambda tx: tx.execute(postpone))
    assert run("settle", *REASON) == []
    with pytest.raises(Invalid, match="not settled and due"):
        run("settle", "--order", order.id, *REASON)
    assert len(run("settle", "--order", order.id, "--now", "--dry-run")) == 1
    assert len(run("settle", "--order", order.id, "--now", *REASON)) == 1
    assert len(run("settle", "--merchant", other_order.merchant_id, "--now", *REASON)) == 1
    with pytest.raises(Invalid):
        run("settle", "--order", order.id, "--now", *REASON)


def test_an_invalid_settlement_command_is_refused(run: Run, tx: Any) -> None:
    order, disputed_order = create_order(tx, "PAID"), create_order(tx, "DISPUTED")
    refused_commands: list[tuple[type[Exception], tuple[str, ...]]] = [
        (Invalid, ("--now", *REASON)),
        (Invalid, ()),
        (Invalid, ("--order", disputed_order.id, "--now", *REASON)),
        (Invalid, ("--order", order.id, "--merchant", disputed_order.merchant_id, *REASON)),
        (NotFound, ("--order", "order_nowhere", *REASON)),
        (NotFound, ("--merchant", "mer_nowhere", *REASON)),
    ]
    for error, arguments in refused_commands:
        with pytest.raises(error):
            run("settle", *arguments)
    assert read_audit_log(tx) == []
