"""``opentill disputes …`` and ``opentill settle``, as the operator types them."""

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
from support.world import in_status

Run = Callable[..., Any]
WHY = ("--reason", "a letter")


@pytest.fixture
def run(database_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Run a command and return what it answers as JSON; what it refuses is raised."""
    monkeypatch.setenv("OPENTILL_DATABASE_URL", database_url)
    monkeypatch.setenv("OPENTILL_SANDBOX", "yes")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))  # where nobody has logged in
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
    """Run a step of the services in a transaction; the books are right at the end."""

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


def order_in(tx: Any, status: str, **terms: Any) -> orders.Order:
    """Make an order of a merchant of its own."""
    order: orders.Order = tx(lambda tx: in_status(tx, status, **terms))
    return order


def audit(tx: Any) -> list[tuple[str, ...]]:
    """Return who did what to what and why, since there is a merchant."""
    sql = (
        "select who, action, subject, reason from audit_log where action <> 'merchants create'"
        " order by number"
    )
    rows = tx(lambda tx: tx.fetch(sql))
    return [tuple(row) for row in rows]


def test_a_dispute_from_its_opening_to_its_recovery(run: Run, tx: Any) -> None:
    order = order_in(tx, "SETTLED")
    opened = run("disputes", "open", order.id, *WHY)
    assert (opened["orderId"], opened["status"], opened["debit"]) == (order.id, "OPEN", "9.99")
    dispute = opened["id"]
    noted = run("disputes", "note", dispute, "Proof of delivery")
    assert (noted["number"], noted["note"]) == (1, "Proof of delivery")
    assert run("disputes", "lose", dispute, *WHY)["status"] == "LOST"
    assert run("disputes", "recover", dispute, *WHY)["status"] == "RECOVERED"
    shown = run("disputes", "show", dispute)
    assert [note["note"] for note in shown["notes"]] == ["Proof of delivery"]
    assert (shown["merchantId"], shown["gateway"]) == (order.merchant_id, "sandbox")
    assert [d["id"] for d in run("disputes", "list", "--status", "RECOVERED")] == [dispute]
    assert run("disputes", "list", "--merchant", order.merchant_id, "--status", "OPEN") == []
    assert audit(tx) == [
        (USER, "disputes open", order.id, "a letter"),
        (USER, "disputes note", dispute, "Proof of delivery"),
        (USER, "disputes lose", dispute, "a letter"),
        (USER, "disputes recover", dispute, "a letter"),
    ]


def test_the_operator_names_a_deadline_and_gets_notes_and_evidence(
    run: Run, tx: Any, database_url: str, tmp_path: Path
) -> None:
    order = order_in(tx, "SETTLED")
    dispute = run("disputes", "open", order.id, *WHY)["id"]
    named = run("disputes", "deadline", dispute, "2031-01-31", *WHY)
    assert named["respondBy"] == 1_927_670_399_999  # the end of that day
    actor = Actor("ada@example.com (per_1)", "on the page of a dispute")
    files = {"letter.pdf": b"%PDF-1 %%EOF", "../receipt.jpg": b"\xff\xd8\xff x \xff\xd9"}

    async def send() -> None:
        db = await Db.connect(database_url, 2, acquire_timeout_s=20)
        try:
            for name, content in files.items():
                await disputes.add_evidence(
                    db, order.merchant_id, dispute, name, content, actor=actor, now=1
                )
        finally:
            await db.close()

    asyncio.run(send())
    shown = run("disputes", "show", dispute)
    assert shown["respondBy"] == named["respondBy"]
    digests = [hashlib.sha256(content).hexdigest() for content in files.values()]
    fields = ("number", "name", "kind", "size", "sha256")
    assert [tuple(one[field] for field in fields) for one in shown["evidence"]] == [
        (1, "letter.pdf", "application/pdf", 12, digests[0]),
        (2, "receipt.jpg", "image/jpeg", 8, digests[1]),
    ]
    out = tmp_path / "evidence"
    for _ in range(2):  # again over the same files
        written = run("disputes", "evidence", order.id, "--out", str(out))
    assert [one["path"] for one in written] == [
        str(out / "01-letter.pdf"), str(out / "02-receipt.jpg"),
    ]  # fmt: skip
    assert [path.read_bytes() for path in sorted(out.iterdir())] == [*files.values()]
    (tmp_path / "file").write_text("")
    with pytest.raises(Invalid, match="out must be a directory"):
        run("disputes", "evidence", dispute, "--out", str(tmp_path / "file"))
    with pytest.raises(Invalid, match="until must be a time"):
        run("disputes", "deadline", dispute, "soon", *WHY)
    assert [row[:3] for row in audit(tx)] == [
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


def test_a_dispute_of_a_part_is_won(run: Run, tx: Any) -> None:
    order = order_in(tx, "PAID")
    opened = run("disputes", "open", order.id, "--amount", "4.00", *WHY)
    assert opened["amount"] == "4.00"
    assert run("disputes", "win", opened["id"], *WHY)["status"] == "WON"


def test_what_is_refused_is_one_line_and_leaves_nothing(run: Run, tx: Any) -> None:
    order = order_in(tx, "PAID")
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
    for kind, words in refused:
        with pytest.raises(kind) as caught:
            run("disputes", *words)
        assert "\n" not in str(caught.value)
    dispute = run("disputes", "open", order.id, *WHY)["id"]
    for words in (("open", order.id), ("recover", dispute)):
        with pytest.raises(Invalid):
            run("disputes", *words, *WHY)
    assert len(audit(tx)) == 1


def test_settling_by_hand(run: Run, tx: Any) -> None:
    # Paid long ago, so due; and reserved, so that both movements are shown.
    due, other = order_in(tx, "PAID", reserve_rate="0.1"), order_in(tx, "PAID")
    planned = run("settle", "--merchant", due.merchant_id, "--dry-run")
    assert planned == [
        {
            "merchantId": due.merchant_id, "orderId": due.id, "status": "SETTLED",
            "settled": "9.59", "reserve": "0.96", "currency": "USD",
        },
    ]  # fmt: skip
    assert audit(tx) == []
    assert run("settle", "--merchant", due.merchant_id, *WHY) == planned
    assert [one["orderId"] for one in run("settle", *WHY)] == [other.id]
    assert run("settle", *WHY) == []
    assert [row[:3] for row in audit(tx)] == [
        (USER, "settle", due.merchant_id), (USER, "settle", other.merchant_id),
    ]  # fmt: skip


def test_of_many_settlements_the_first_are_shown_and_all_are_summed(
    run: Run, tx: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of a merchant who has not settled for a year do not fit into memory."""
    monkeypatch.setattr(settle, "MOST_SHOWN", 1)
    due = [order_in(tx, "PAID", reserve_rate="0.1") for _ in range(3)]
    notes: list[str] = []
    monkeypatch.setattr(output, "say", notes.append)
    planned = run("settle", "--dry-run")
    assert [one["orderId"] for one in planned] == [min(due, key=lambda one: one.merchant_id).id]
    assert run("settle", *WHY) == planned
    said = "and 2 more; in all 3 orders: settled 28.77 USD, reserve 2.88 USD"
    assert notes == [said, said]
    assert run("settle", "--dry-run") == []


def test_settling_early(run: Run, tx: Any) -> None:
    terms = {"settlement_delay_days": 365}
    first, second = order_in(tx, "PAID", **terms), order_in(tx, "PAID", **terms)
    later = "due_at + 10000000000000"  # three hundred years
    far = f"update orders set due_at = {later}, settle_at = {later}"
    tx(lambda tx: tx.execute(far))
    assert run("settle", *WHY) == []
    with pytest.raises(Invalid, match="not settled and due"):
        run("settle", "--order", first.id, *WHY)
    assert len(run("settle", "--order", first.id, "--now", "--dry-run")) == 1
    assert len(run("settle", "--order", first.id, "--now", *WHY)) == 1
    assert len(run("settle", "--merchant", second.merchant_id, "--now", *WHY)) == 1
    with pytest.raises(Invalid):
        run("settle", "--order", first.id, "--now", *WHY)


def test_what_cannot_be_settled_by_hand(run: Run, tx: Any) -> None:
    order, other = order_in(tx, "PAID"), order_in(tx, "DISPUTED")
    refused: list[tuple[type[Exception], tuple[str, ...]]] = [
        (Invalid, ("--now", *WHY)),
        (Invalid, ()),
        (Invalid, ("--order", other.id, "--now", *WHY)),
        (Invalid, ("--order", order.id, "--merchant", other.merchant_id, *WHY)),
        (NotFound, ("--order", "order_nowhere", *WHY)),
        (NotFound, ("--merchant", "mer_nowhere", *WHY)),
    ]
    for kind, words in refused:
        with pytest.raises(kind):
            run("settle", *words)
    assert audit(tx) == []
