"""Lists of mails read what they show, however many mails there are."""

from typing import Any, Final

import pytest

from opentill.db.database import Tx
from opentill.mail import STATUSES, queries
from support.plans import max_rows_read

MANY: Final = 3000
LIMIT: Final = 20
EVERY: Final = list(STATUSES)
OWNER: Final = {"recipient": "owner@example.com"}
OF_MERCHANT: Final = {"merchant_id": "mer_x", "before": "mail_~"}


@pytest.mark.parametrize(
    ("name", "filters"),
    [
        ("LIST", {**OF_MERCHANT, "status": EVERY}),
        ("LIST", {**OF_MERCHANT, "status": ["FAILED"]}),
        ("LIST_TO", {**OF_MERCHANT, **OWNER, "status": EVERY}),
        ("LIST_TO", {**OF_MERCHANT, **OWNER, "status": ["FAILED"]}),
        ("LIST_TO", {**OF_MERCHANT, "recipient": "nobody@example.com", "status": EVERY}),
        ("NEWEST", {"status": EVERY}),
        ("NEWEST", {"status": ["FAILED"]}),
    ],
)
async def test_a_list_reads_no_more_than_it_shows(
    tx: Tx, name: str, filters: dict[str, Any]
) -> None:
    await tx.execute(
        "insert into mails select 'mer_x', 'mail_' || n, 'test', n, 'owner@example.com', null,"
        f" 'en', '{{}}', null, n, 'SENT', 1, null, '', n, n from generate_series(1, {MANY}) n"
    )
    await tx.execute("analyze mails")
    read = await max_rows_read(tx, vars(queries)[name], limit=LIMIT, **filters)
    assert read <= LIMIT * len(STATUSES)
