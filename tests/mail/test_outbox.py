"""Lists of mails read only the rows of their page, however many mails there are."""

from typing import Any, Final

import pytest

from opentill.db.database import Tx
from opentill.mail import STATUSES, queries
from support.plans import max_rows_read

MAILS: Final = 3000
PAGE_SIZE: Final = 20
ALL_STATUSES: Final = list(STATUSES)
TO_OWNER: Final = {"recipient": "owner@example.com"}
OF_MERCHANT: Final = {"merchant_id": "mer_x", "before": "mail_~"}


@pytest.mark.parametrize(
    ("name", "filters"),
    [
        ("LIST", {**OF_MERCHANT, "status": ALL_STATUSES}),
        ("LIST", {**OF_MERCHANT, "status": ["FAILED"]}),
        ("LIST_TO", {**OF_MERCHANT, **TO_OWNER, "status": ALL_STATUSES}),
        ("LIST_TO", {**OF_MERCHANT, **TO_OWNER, "status": ["FAILED"]}),
        ("LIST_TO", {**OF_MERCHANT, "recipient": "nobody@example.com", "status": ALL_STATUSES}),
        ("NEWEST", {"status": ALL_STATUSES, "before_at": MAILS + 1, "before_id": "mail_z"}),
        ("NEWEST", {"status": ["FAILED"], "before_at": MAILS + 1, "before_id": "mail_z"}),
    ],
)
async def test_a_list_of_mails_reads_only_the_rows_of_its_page(
    tx: Tx, name: str, filters: dict[str, Any]
) -> None:
    await tx.execute(
        "insert into mails select 'mer_x', 'mail_' || n, 'test', n, 'owner@example.com', null,"
        f" 'en', '{{}}', null, n, 'SENT', 1, null, '', n, n from generate_series(1, {MAILS}) n"
    )
    await tx.execute("analyze mails")
    rows_read = await max_rows_read(tx, vars(queries)[name], limit=PAGE_SIZE, **filters)
    assert rows_read <= PAGE_SIZE * len(STATUSES)
