"""The sandbox bank deletes old payments and old callbacks that need no further attempt."""

import sqlite3
import time
from contextlib import closing
from pathlib import Path

from opentill.sandbox.purge import CALLBACKS_KEPT_S, PAYMENTS_KEPT_S, purge
from opentill.sandbox.storage import Store, Tx

PAYMENT = {
    "currency": "USD", "method": "CREDIT_CARD", "description": "", "merchant_name": "",
    "customer_email": "", "return_url": "", "callback_url": "", "locale": "en",
    "status": "succeeded", "challenged": 0, "refunds_fail": 0, "refunded_minor": 0,
    "amount_minor": 100,
}  # fmt: skip
REFUND = {"amount_minor": 1, "currency": "USD", "callback_url": "", "status": "succeeded"}
DISPUTE = {"amount_minor": 1, "currency": "USD", "reason": "", "status": "won"}
CALLBACK = {"receiver": "x", "url": "x", "payment_id": "x", "body": b"", "next_at": 0}


async def test_old_rows_are_deleted_in_batches(tmp_path: Path) -> None:
    now = time.time_ns() // 1_000_000
    path = tmp_path / "bank.sqlite3"
    store = Store(path, lambda _: None)
    await store.open()

    def fill(tx: Tx) -> None:
        for number in range(700):
            age = PAYMENTS_KEPT_S if number < 600 else PAYMENTS_KEPT_S - 100
            at = {"created_at": 1, "updated_at": now - age * 1000 - 1}
            tx.insert("payments", PAYMENT | at | {"id": f"p{number}"})
            tx.insert("refunds", REFUND | at | {"id": f"r{number}", "payment_id": f"p{number}"})
            tx.insert("disputes", DISPUTE | at | {"id": f"d{number}", "payment_id": f"p{number}"})
        for number, status in enumerate(("delivered", "dropped", "given_up", "pending")):
            for age, name in ((CALLBACKS_KEPT_S + 1, "old"), (CALLBACKS_KEPT_S - 100, "new")):
                at = {"created_at": now - age * 1000}
                tx.insert("callbacks", CALLBACK | at | {"id": f"{name}{number}", "status": status})

    await store.do(fill)
    counts = [await store.do(lambda tx: purge(tx, now)) for _ in range(3)]
    await store.close()
    assert counts == [1500 + 3, 300, 0]
    with closing(sqlite3.connect(path)) as file:
        for table in ("payments", "refunds", "disputes"):
            assert file.execute(f"select count(*) from {table}").fetchone() == (100,)
        remaining = {name for (name,) in file.execute("select id from callbacks")}
        assert remaining == {"new0", "new1", "new2", "new3", "old3"}
