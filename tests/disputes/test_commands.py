"""The commands ``opentill disputes …`` and ``opentill settle``."""

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable, Iterator
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
WHY = ("--reason", "a letter")


@pytest.fixture
def run(database_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Run a command and return its JSON output; raise its exception."""
    monkeypatch.setenv("OPENTILL_DATABASE_URL", database_url)
    monkeypatch.setenv("OPENTILL_SANDBOX", "yes")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))  # without a stored login
    monkeypatch.setenv("OPENTILL_DB_PREPARED", pooler.prepared_setting(database_url))
    monkeypatch.setenv("OPENTILL_SECRET_KEY", "test-secret-key-test-secret-key-0123")

    def run(*words: str) -> Any:
        result = CliRunner().invoke(build(), [*words, "--json"])
        if result.exception is not None:
            raise result.exception
        return json.loads(result.stdout)

    return run


@pytest.fixture
def tx(database_url: str) -> Iterator[Callable[[Callable[[Tx], Awaitable[Any]]], Any]]:
    """Run functions in a committed transaction, and check the books at the end."""

    def commit(work: Callable[[Tx], Awaitable[Any]]) -> Any:
        async def committed() -> Any:
            db = await Db.connect(database_url, 2, acquire_timeout_s=20)
            try:
                return await db.run(work)
            finally:
                await db.close()

        return asyncio.run(committed())

    yield commit
    commit(assert_books)


def create_order(tx: Any, status: str, **terms: Any) -> orders.Order:
    """Create an order of a new merchant."""
    order: orders.Order = tx(lambda tx: create_order_in(tx, status, **terms))
    return order


def read_audit_log(tx: Any) -> list[tuple[str, ...]]:
    """Return the audit log without creations of merchants: who, action, subject, reason."""
    sql = (
        "select who, action, subject, reason from audit_log where action <> 'merchants create'"
        " order by number"
    )
    rows = tx(lambda tx: tx.fetch(sql))
    return [tuple(row) for row in rows]


def test_a_dispute_from_its_opening_to_its_recovery(run: Run, tx: Any) -> None:
    order = create_order(tx, "SETTLED")
    opened = run("disputes", "open", order.id, *WHY)
    assert (opened["orderId"], opened["status"], opened["debit"]) == (order.id, "OPEN", "9.99")
    dispute = opened["id"]
    note = run("disputes", "note", dispute, "Proof of delivery")
    assert (note["number"], note["note"]) == (1, "Proof of delivery")
    assert run("disputes", "lose", dispute, *WHY)["status"] == "LOST"
    assert run("disputes", "recover", dispute, *WHY)["status"] == "RECOVERED"
    shown = run("disputes", "show", dispute)
    assert [note["note"] for note in shown["notes"]] == ["Proof of delivery"]
    assert (shown["merchantId"], shown["gateway"]) == (order.merchant_id, "sandbox")
    assert [d["id"] for d in run("disputes", "list", "--status", "RECOVERED")] == [dispute]
    assert run("disputes", "list", "--merchant", order.merchant_id, "--status", "OPEN") == []
    assert read_audit_log(tx) == [
        (USER, "disputes open", order.id, "a letter"),
        (USER, "disputes note", dispute, "Proof of delivery"),
        (USER, "disputes lose", dispute, "a letter"),
        (USER, "disputes recover", dispute, "a letter"),
    ]


def test_the_operator_sets_a_deadline_and_reads_evidence(
    run: Run, tx: Any, database_url: str, tmp_path: Path
) -> None:
    order = create_order(tx, "SETTLED")
    dispute = run("disputes", "open", order.id, *WHY)["id"]
    changed = run("disputes", "deadline", dispute, "2031-01-31", *WHY)
    assert changed["respondBy"] == 1_927_670_399_999  # the end of that day
    actor = Actor("ada@example.com (per_1)", "on the page of a dispute")
    files = {"letter.pdf": b"%PDF-1 %%EOF", "../receipt.jpg": b"\xff\xd8\xff x \xff\xd9"}

    async def add_files() -> None:
        db = await Db.connect(database_url, 2, acquire_timeout_s=20)
        try:
            for name, content in files.items():
                await disputes.add_evidence(
                    db, order.merchant_id, dispute, name, content, actor=actor, now=1
                )
        finally:
            await db.close()

    asyncio.run(add_files())
    shown = run("disputes", "show", dispute)
    assert shown["respondBy"] == changed["respondBy"]
    digests = [hashlib.sha256(content).hexdigest() for content in files.values()]
    fields = ("number", "name", "kind", "size", "sha256")
    assert [tuple(file[field] for field in fields) for file in shown["evidence"]] == [
        (1, "letter.pdf", "application/pdf", 12, digests[0]),
        (2, "receipt.jpg", "image/jpeg", 8, digests[1]),
    ]
    out = tmp_path / "evidence"
    for _ in range(2):  # the second time over the same files
        written = run("disputes", "evidence", order.id, "--out", str(out))
    assert [file["path"] for file in written] == [
        str(out / "01-letter.pdf"), str(out / "02-receipt.jpg"),
    ]  # fmt: skip
    assert [path.read_bytes() for path in sorted(out.iterdir())] == [*files.values()]
    (tmp_path / "file").write_text("")
    with pytest.raises(Invalid, match="out must be a directory"):
        run("disputes", "evidence", dispute, "--out", str(tmp_path / "file"))
    with pytest.raises(Invalid, match="until must be a time"):
        run("disputes", "deadline", dispute, "soon", *WHY)
    assert [row[:3] for row in read_audit_log(tx)] == [
        (USER, "disputes open", order.id),
        (USER, "disputes deadline", f"{dispute} until 2031-01-31 23:59:59 UTC"),
        *(
            (actor.who, "disputes evidence", f"{dispute} {name} SHA-256 {digest}")
            for name, digest in zip(("letter.pdf", "receipt.jpg"), digests, strict=True)
        ),
    ]
    run("disputes", "win", dispute, *WHY)
    with pytest.raises(Invalid, match="must be open"):
        run("disputes", "deadline", dispute, "7d", *WHY)


def test_a_partial_dispute_is_won(run: Run, tx: Any) -> None:
    order = create_order(tx, "PAID")
    opened = run("disputes", "open", order.id, "--amount", "4.00", *WHY)
    assert opened["amount"] == "4.00"
    assert run("disputes", "win", opened["id"], *WHY)["status"] == "WON"


def test_an_invalid_command_is_refused_in_one_line_and_changes_nothing(run: Run, tx: Any) -> None:
    order = create_order(tx, "PAID")
    refused: list[tuple[type[Exception], tuple[str, ...]]] = [
        (Invalid, ("open", order.id)),
        (Invalid, ("open", order.id, "--reason", " ")),
        (Invalid, ("open", order.id, "--amount", "10.00", *WHY)),
        (Invalid, ("open", order.id, "--amount", "1.001", *WHY)),
        (Invalid, ("open", order.id, "--amount", "-1", *WHY)),
        (NotFound, ("open", "order_nowhere", *WHY)),
        (NotFound, ("win", "dp_nowhere", *WHY)),
        (NotFound, ("lose", "dp_nowhere", *WHY)),
        (NotFound, ("note", "dp_nowhere", "text", *WHY)),
        (NotFound, ("show", "dp_nowhere")),
        (NotFound, ("list", "--merchant", "mer_nowhere")),
        (Invalid, ("list", "--status", "PAID")),
    ]
    for error, words in refused:
        with pytest.raises(error) as caught:
            run("disputes", *words)
        assert "\n" not in str(caught.value)
    dispute = run("disputes", "open", order.id, *WHY)["id"]
    for words in (("open", order.id), ("recover", dispute)):
        with pytest.raises(Invalid):
            run("disputes", *words, *WHY)
    assert len(read_audit_log(tx)) == 1


def test_orders_are_settled_by_command(run: Run, tx: Any) -> None:
    # Paid long ago, so due. The reserve makes both movements visible.
    due, other = create_order(tx, "PAID", reserve_rate="0.1"), create_order(tx, "PAID")
    planned = run("settle", "--merchant", due.merchant_id, "--dry-run")
    assert planned == [
        {
            "merchantId": due.merchant_id, "orderId": due.id, "status": "SETTLED",
            "settled": "9.59", "reserve": "0.96", "currency": "USD",
        },
    ]  # fmt: skip
    assert read_audit_log(tx) == []
    assert run("settle", "--merchant", due.merchant_id, *WHY) == planned
    assert [row["orderId"] for row in run("settle", *WHY)] == [other.id]
    assert run("settle", *WHY) == []
    assert [row[:3] for row in read_audit_log(tx)] == [
        (USER, "settle", due.merchant_id), (USER, "settle", other.merchant_id),
    ]  # fmt: skip


def test_of_many_settlements_the_first_are_listed_and_all_are_summed(
    run: Run, tx: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The settlements of a year do not fit into memory."""
    monkeypatch.setattr(settle, "MOST_SHOWN", 1)
    due = [create_order(tx, "PAID", reserve_rate="0.1") for _ in range(3)]
    notes: list[str] = []
    monkeypatch.setattr(output, "say", notes.append)
    planned = run("settle", "--dry-run")
    first = min(due, key=lambda order: order.merchant_id)
    assert [row["orderId"] for row in planned] == [first.id]
    assert run("settle", *WHY) == planned
    assert notes == ["and 2 more; in all 3 orders: settled 28.77 USD, reserve 2.88 USD"] * 2
    assert run("settle", "--dry-run") == []


def test_orders_are_settled_early_by_command(run: Run, tx: Any) -> None:
    terms = {"settlement_delay_days": 365}
    first, second = create_order(tx, "PAID", **terms), create_order(tx, "PAID", **terms)
    later = "due_at + 10000000000000"  # three hundred years
    postpone = f"update orders set due_at = {later}, settle_at = {later}"
    tx(lambda tx: tx.execute(postpone))
    assert run("settle", *WHY) == []
    with pytest.raises(Invalid, match="not settled and due"):
        run("settle", "--order", first.id, *WHY)
    assert len(run("settle", "--order", first.id, "--now", "--dry-run")) == 1
    assert len(run("settle", "--order", first.id, "--now", *WHY)) == 1
    assert len(run("settle", "--merchant", second.merchant_id, "--now", *WHY)) == 1
    with pytest.raises(Invalid):
        run("settle", "--order", first.id, "--now", *WHY)


def test_an_invalid_settlement_command_is_refused(run: Run, tx: Any) -> None:
    order, other = create_order(tx, "PAID"), create_order(tx, "DISPUTED")
    refused: list[tuple[type[Exception], tuple[str, ...]]] = [
        (Invalid, ("--now", *WHY)),
        (Invalid, ()),
        (Invalid, ("--order", other.id, "--now", *WHY)),
        (Invalid, ("--order", order.id, "--merchant", other.merchant_id, *WHY)),
        (NotFound, ("--order", "order_nowhere", *WHY)),
        (NotFound, ("--merchant", "mer_nowhere", *WHY)),
    ]
    for error, words in refused:
        with pytest.raises(error):
            run("settle", *words)
    assert read_audit_log(tx) == []
