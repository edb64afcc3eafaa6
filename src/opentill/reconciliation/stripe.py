"""Stripe's own reports, as its dashboard and its reporting API export them.

Two formats, recognized by their columns: the itemised reports ("Balance change from activity",
"Payout reconciliation": ``balance_transaction_id``, ``reporting_category``, ``gross``), and the
export of balance transactions (``id``, ``Type``, ``Source``, ``Amount``). Fees, payouts and other
types that concern no customer's money are skipped, by name; a row of an unknown type counts as
missing in our books. Amounts are those that the customer saw if the report has them, else they are
in the currency of Stripe's balance.
"""

import csv
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final

from opentill.core import times
from opentill.core.errors import Invalid
from opentill.core.money import EXPONENTS, MOST_MINOR, exponent
from opentill.reconciliation.model import Kind, Row, bounds_of_moment

Cells = Mapping[str, str]
_AMOUNT: Final = re.compile(r"(-?)([0-9]{1,15}(?:\.[0-9]{1,6})?)", re.ASCII)
# Stripe's reporting category or type → our kind of row
# (https://docs.stripe.com/reports/reporting-categories).
_CATEGORIES: Final[dict[str, Kind]] = {
    "charge": "payment",
    "payment": "payment",
    "refund": "refund",
    "partial_capture_reversal": "refund",
    "payment_refund": "refund",
    "refund_failure": "refund_failure",
    "charge_failure": "payment_failure",
    "payment_failure_refund": "payment_failure",
    "payment_reversal": "payment_failure",
    "dispute": "chargeback",
    "dispute_reversal": "recovery",
}
# Categories of movements between Stripe and the operator, which concern no customer's money.
_OPERATORS_OWN: Final = frozenset(
    [
        "fee",
        "stripe_fee",
        "stripe_fx_fee",
        "network_cost",
        "tax",
        "tax_fee",
        "tax_fund",
        "application_fee",
        "application_fee_refund",
        "fee_credit_funding",
        "platform_earning",
        "platform_earning_refund",
        "payout",
        "payout_reversal",
        "payout_cancel",
        "payout_failure",
        "payout_minimum_balance_hold",
        "payout_minimum_balance_release",
        "minimum_balance_hold",
        "minimum_balance_release",
        "transfer",
        "transfer_reversal",
        "transfer_cancel",
        "transfer_failure",
        "transfer_refund",
        "inbound_transfer",
        "inbound_transfer_reversal",
        "topup",
        "topup_reversal",
        "connect_collection_transfer",
        "connect_reserved_funds",
        "contribution",
        "climate_order_purchase",
        "climate_order_refund",
        "advance",
        "advance_funding",
        "anticipation_repayment",
        "financing_paydown",
        "financing_paydown_reversal",
        "financing_payout",
        "financing_payout_reversal",
        "issuing_authorization_hold",
        "issuing_authorization_release",
        "issuing_dispute",
        "issuing_dispute_provisional_credit",
        "issuing_dispute_provisional_credit_reversal",
        "issuing_transaction",
        "payment_network_reserve_hold",
        "payment_network_reserve_release",
        "reserve_hold",
        "reserve_release",
        "reserve_transaction",
        "reserved_funds",
        "risk_reserved_funds",
        "obligation_outbound",
        "obligation_reversal_inbound",
        "stripe_balance_payment_debit",
        "stripe_balance_payment_debit_reversal",
    ]
)
_DISPUTE: Final = ("dp_", "du_", "pdp_")
_REFUND: Final = ("re_", "pyr_")
# Columns that may contain the attempt's id, which we send to Stripe as metadata.
_ATTEMPT: Final = ("payment_metadata[attempt_id]", "attempt_id (metadata)")
_OUR_REFUND: Final = "refund_metadata[refund_id]"
_INTENT: Final = "payment_intent_id"
_CHARGE: Final = ("ch_", "py_")  # Stripe's ids of charges, which our books do not have


RowParser = Callable[[int, Cells], Row | None]


def find_parser(header: list[str]) -> RowParser | None:
    """Return the parser for rows with these columns; None if the report is not Stripe's."""
    if {"balance_transaction_id", "reporting_category", "gross", "currency"} <= set(header):
        return _parse_itemised
    if {"id", "type", "source", "amount", "currency", "created (utc)"} <= set(header):
        return _parse_exported
    return None


def read(lines: Any, header: list[str], parse_row: RowParser) -> Iterator[Row]:
    """Yield the rows of a ``csv.reader``. Raises Invalid that names the line."""
    try:
        for cells in lines:
            if not any(cells):
                continue
            if len(cells) != len(header):
                reason = f"line {lines.line_num}: as many cells as line 1 are needed"
                raise Invalid("file", f"{reason}: {len(header)}, not {len(cells)}")
            by_name = {name: cell.strip() for name, cell in zip(header, cells, strict=True)}
            row = parse_row(lines.line_num, by_name)
            if row is not None:
                yield row
    except csv.Error as error:
        raise Invalid("file", f"line {lines.line_num}: must be CSV ({error})") from None


def _parse_itemised(line: int, cells: Cells) -> Row | None:
    category = cells["reporting_category"]
    if category in _OPERATORS_OWN:
        return None
    kind = _CATEGORIES.get(category, "unknown")
    presentment = cells.get("customer_facing_amount", ""), cells.get("customer_facing_currency", "")
    amount = presentment if all(presentment) else (cells["gross"], cells["currency"])
    at = cells.get("created_utc") or cells.get("created", "")
    source = cells.get("source_id", "")
    if kind == "unknown":
        return _unknown(line, category, source or cells["balance_transaction_id"], amount, at)
    return _row(line, cells, kind, source, amount, at)


def _parse_exported(line: int, cells: Cells) -> Row | None:
    type_, source = cells["type"], cells["source"]
    if type_ in _OPERATORS_OWN:
        return None
    kind: Kind = _CATEGORIES.get(type_, "unknown")
    is_debit = cells["amount"].startswith("-")
    if type_ == "adjustment" and source.startswith(_DISPUTE):
        kind = "chargeback" if is_debit else "recovery"
    elif type_ == "adjustment" and source.startswith(_REFUND) and not is_debit:
        kind = "refund_failure"
    presentment = cells.get("customer facing amount", ""), cells.get("customer facing currency", "")
    amount = presentment if all(presentment) else (cells["amount"], cells["currency"])
    at = cells["created (utc)"]
    if kind == "unknown":
        return _unknown(line, type_, source or cells["id"], amount, at)
    return _row(line, cells, kind, source, amount, at)


def _unknown(line: int, type_: str, source: str, amount: tuple[str, str], at: str) -> Row:
    """Return a row of an unknown type; an unreadable amount counts as 0."""
    text, currency = amount[0].replace(",", ""), amount[1].upper()
    number = _AMOUNT.fullmatch(text)
    minor = 0
    if number is not None and currency in EXPONENTS:
        minor = int(Decimal(number[2]).scaleb(exponent(currency)))
    reference = f"{type_} {source}".replace("\x00", "")[:255]
    return _row_of(line, "unknown", reference, minor, currency[:10], at)


def _row(line: int, cells: Cells, kind: Kind, source: str, amount: tuple[str, str], at: str) -> Row:
    reference = source
    if kind in ("payment", "payment_failure"):
        ours = next((cells[name] for name in _ATTEMPT if cells.get(name)), "")
        reference = ours or cells.get(_INTENT, "") or source
        if reference.startswith(_CHARGE) and not cells.keys() & {*_ATTEMPT, _INTENT}:
            reason = f"the report must have the column {_ATTEMPT[1]} or {_INTENT}"
            raise Invalid("file", f"line {line}: {reason}: export it with all columns")
    elif kind in ("refund", "refund_failure"):
        # Our books know the refund of a second payment by our id only.
        reference = cells.get(_OUR_REFUND, "") or source
    elif kind in ("chargeback", "recovery"):
        reference = cells.get("dispute_id", "") or source
    # A row without a source has moved money too: put it into the inbox under Stripe's own id.
    reference = reference or cells.get("balance_transaction_id", "") or cells.get("id", "")
    text, currency = amount[0].replace(",", ""), amount[1].upper()
    number = _AMOUNT.fullmatch(text)
    if number is None or currency not in EXPONENTS:
        raise Invalid("file", f"line {line}: amount and currency must be such as 9.99 and usd")
    exact = Decimal(number[2]).scaleb(exponent(currency))
    is_amount = exact == int(exact) and exact <= MOST_MINOR
    if not is_amount or not reference or "\x00" in reference:
        raise Invalid("file", f"line {line}: must have a source and an amount of {currency}")
    return _row_of(line, kind, reference[:255], int(exact), currency, at)


def _row_of(
    line: int, kind: Kind, reference: str, amount_minor: int, currency: str, at: str
) -> Row:
    settled_at = _parse_time(line, at)
    complete_since, complete_until = bounds_of_moment(settled_at, 1000)
    return Row(
        line=line, kind=kind, reference=reference, amount_minor=amount_minor, currency=currency,
        settled_at=settled_at, complete_since=complete_since, complete_until=complete_until,
        at_once=True,
    )  # fmt: skip


def _parse_time(line: int, text: str) -> int:
    try:
        moment = datetime.fromisoformat(text)
        time_ms = round(moment.replace(tzinfo=moment.tzinfo or UTC).timestamp() * 1000)
    except (ValueError, OverflowError):
        time_ms = 0
    if not times.is_credible(time_ms):
        reason = "the time of creation must be such as 2026-01-31 10:00:00, in UTC, of 2000 to 2099"
        raise Invalid("file", f"line {line}: {reason}")
    return time_ms
