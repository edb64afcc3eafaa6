"""PayPal's Transaction Search API: the movements of money on the account."""

from datetime import datetime
from typing import Any, Final, Literal

import msgspec

from opentill.sandbox.paypal.orders import Error
from opentill.sandbox.paypal.views import money, time_of
from opentill.sandbox.storage import Tx

_MOST_MS: Final = 31 * 86_400_000
_MOST_ROWS: Final = 10_000
_PAGE: Final = 500
# Kind → PayPal's event code and the sign of the amount.
_CODES: Final = {
    "payment": ("T0006", 1),
    "refund": ("T1107", -1),
    "refund_failure": ("T1107", 1),
    "chargeback": ("T1201", -1),
    "recovery": ("T1202", 1),
}
_SQL: Final = """
select * from (
    select 'payment' as kind, o.capture_id as id, '' as of_payment, o.custom_id, o.invoice_id,
        p.amount_minor, p.currency, o.captured_at as at
    from payments p join paypal_orders o on o.payment_id = p.id
    where p.status = 'succeeded' and o.captured_at is not null
    union all
    select 'refund', x.paypal_id, o.capture_id,
        case x.custom_id when '' then o.custom_id else x.custom_id end, o.invoice_id,
        r.amount_minor, r.currency, r.succeeded_at
    from refunds r join paypal_refunds x on x.refund_id = r.id
        join paypal_orders o on o.payment_id = r.payment_id
    where r.succeeded_at is not null
    union all
    select 'refund_failure', x.paypal_id || 'F', o.capture_id,
        case x.custom_id when '' then o.custom_id else x.custom_id end, o.invoice_id,
        r.amount_minor, r.currency, r.reversed_at
    from refunds r join paypal_refunds x on x.refund_id = r.id
        join paypal_orders o on o.payment_id = r.payment_id
    where r.reversed_at is not null
    union all
    select 'chargeback', substr(o.capture_id, 2) || 'C', o.capture_id, o.custom_id, o.invoice_id,
        d.amount_minor, d.currency, d.lost_at
    from disputes d join paypal_orders o on o.payment_id = d.payment_id
    where d.status in ('lost', 'recovered')
    union all
    select 'recovery', substr(o.capture_id, 2) || 'R', o.capture_id, o.custom_id, o.invoice_id,
        d.amount_minor, d.currency, d.updated_at
    from disputes d join paypal_orders o on o.payment_id = d.payment_id
    where d.status = 'recovered'
) where at between :since and :until order by at, kind, id limit :most
"""


class Movement(msgspec.Struct, frozen=True):
    """A movement of money. ``of_payment`` is the capture that it belongs to."""

    kind: Literal["payment", "refund", "refund_failure", "chargeback", "recovery"]
    id: str
    of_payment: str
    custom_id: str
    invoice_id: str
    amount_minor: int
    currency: str
    at: int

    @property
    def fields(self) -> dict[str, Any]:
        """The movement as PayPal shows it."""
        code, sign = _CODES[self.kind]
        amount = money(self.amount_minor, self.currency)
        if sign < 0:
            amount["value"] = f"-{amount['value']}"
        info: dict[str, Any] = {
            "transaction_id": self.id,
            "transaction_event_code": code,
            "transaction_initiation_date": time_of(self.at),
            "transaction_updated_date": time_of(self.at),
            "transaction_amount": amount,
            "transaction_status": "S",
            "invoice_id": self.invoice_id,
            "custom_field": self.custom_id,
        }
        if self.of_payment:
            info |= {"paypal_reference_id": self.of_payment, "paypal_reference_id_type": "TXN"}
        return {"transaction_info": info}


def search(tx: Tx, query: dict[str, str]) -> dict[str, Any]:
    """Return a page of the movements between two times. Raises Error."""
    since, until = _millis(query.get("start_date", "")), _millis(query.get("end_date", ""))
    if not 0 <= until - since <= _MOST_MS:
        raise Error(400, "INVALID_REQUEST", "INVALID_PARAMETER_VALUE")
    size, page = int(query.get("page_size", "100")), int(query.get("page", "1"))
    if not 1 <= size <= _PAGE or page < 1:
        raise Error(400, "INVALID_REQUEST", "INVALID_PARAMETER_VALUE")
    rows = tx.all(Movement, _SQL, since=since, until=until + 999, most=_MOST_ROWS + 1)
    if len(rows) > _MOST_ROWS:
        raise Error(400, "RESULTSET_TOO_LARGE")
    shown = rows[(page - 1) * size : page * size]
    return {
        "transaction_details": [row.fields for row in shown],
        "page": page,
        "total_items": len(rows),
        "total_pages": -(-len(rows) // size),
        "links": [],
    }


def _millis(text: str) -> int:
    try:
        return round(datetime.fromisoformat(text).timestamp() * 1000)
    except ValueError:
        raise Error(400, "INVALID_REQUEST", "INVALID_PARAMETER_SYNTAX") from None
