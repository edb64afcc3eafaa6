"""The movements of PayPal's Transaction Search API, as rows of a settlement report.

Sources: PayPal's OpenAPI document ``reporting_transactions_v1`` (github.com/paypal/
paypal-rest-api-specifications), and the tables of event codes named below. PayPal lists a movement
up to three hours after it has happened, for three years, in ranges of at most 31 days.
"""

from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime
from typing import BinaryIO, Final
from urllib.parse import urlencode

import msgspec

from opentill.core.errors import ConfigurationError
from opentill.core.ids import is_id
from opentill.core.money import EXPONENTS, Money
from opentill.gateways.paypal.amounts import from_paypal
from opentill.gateways.paypal.wire import Amount, is_attempt, reference

_COLUMNS: Final = "kind,reference,amount,currency,settled_at\r\n"
DELAY_MS: Final = 3 * 3_600_000
DAY_MS: Final = 86_400_000
_PAGE: Final = 200
_MOST_PAGES: Final = 50  # PayPal lists at most 10,000 movements of a range …
TOO_MANY: Final = "RESULTSET_TOO_LARGE"  # … and refuses one that has more
# S: it succeeded; V: it succeeded, and all of it was refunded or taken back later.
_DONE: Final = frozenset({"S", "V"})
# The tables of codes below follow "Transaction event codes" (developer.paypal.com/docs/
# transaction-search/transaction-event-codes) and "T-codes", which says in which direction each
# moves money (developer.paypal.com/docs/reports/reference/tcodes).
_PAYMENTS: Final = "T00"
_REFUND: Final = "T1107"  # a refund by the merchant
# Money that a dispute takes or returns. Most of these codes exist in both directions, and the
# direction decides: T1106 reversal of a payment, T1201 chargeback, T1202 its reversal, T1205
# its reimbursement, T1207 representment rejected, T1208 reversal of a chargeback's reversal.
_DISPUTED: Final = frozenset({"T1106", "T1201", "T1202", "T1205", "T1207", "T1208"})
# Movements that concern no customer's money: fees, conversions, transfers from and to the bank,
# debit cards, bonuses, incentives and bills (T01 to T10); reversals of these, of holds, of fees
# and of mass payments (T11nn); charge-offs and incentives (T12nn); authorizations, dividends,
# holds, credit, withdrawals, corrections, transfers, reserves (T13 to T22); what PayPal lends
# (T97); and rows that move nothing (T98).
_OWN: Final = (
    "T01", "T02", "T03", "T04", "T05", "T06", "T07", "T08", "T09", "T10", "T1101", "T1102", "T1103",
    "T1104", "T1105", "T1108", "T1109", "T1110", "T1111", "T1112", "T1114", "T1115", "T1117",
    "T1119", "T1203", "T1204", "T13", "T14", "T15", "T16", "T17", "T18", "T19", "T20", "T21", "T22",
    "T97", "T98",
)  # fmt: skip


class Info(msgspec.Struct, frozen=True, kw_only=True):
    """A transaction of PayPal's Transaction Search: a payment, refund, fee or other movement."""

    transaction_id: str
    transaction_event_code: str
    transaction_status: str
    transaction_initiation_date: str
    transaction_amount: Amount
    paypal_reference_id: str = ""
    invoice_id: str = ""
    custom_field: str = ""

    @property
    def line(self) -> str | None:
        """The movement as a line of CSV; None if it concerns no customer's money or is not done.

        A code that is not listed here is a ``payment_failure``, which no book has, so that it is
        always a difference. Raises ValueError for an amount that cannot be read.
        """
        code, text = self.transaction_event_code, self.transaction_amount.value
        is_debit = text.startswith("-")
        if self.transaction_status not in _DONE or code.startswith(_OWN):
            return None
        if code.startswith(_PAYMENTS):
            if is_debit:  # the operator's own purchase
                return None
            kind, name = "payment", self._payment or self.transaction_id
        else:
            kind, name = "payment_failure", self._payment
            if code in _DISPUTED:
                kind = "chargeback" if is_debit else "recovery"
            elif code == _REFUND:
                kind = "refund" if is_debit else "refund_failure"
                name = self._refund
        money = from_paypal(text.removeprefix("-"), self.transaction_amount.currency_code)
        name = name or reference(self.paypal_reference_id) or reference(self.transaction_id) or "-"
        moment = datetime.fromisoformat(self.transaction_initiation_date)
        at = moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return f"{kind},{name},{_decimal(money)},{money.currency},{at}\r\n" if money.minor else None

    @property
    def _payment(self) -> str:
        """Our id of the payment, "" if PayPal does not return it."""
        ids = (self.custom_field.rpartition(".")[2], self.invoice_id)
        return next((id_ for id_ in ids if is_attempt(id_)), "")

    @property
    def _refund(self) -> str:
        """Our id of the refund, or PayPal's for a refund that was made there."""
        refund_id, separator, _ = self.custom_field.partition(".")
        return refund_id if separator and is_id(refund_id) else reference(self.transaction_id)


class Detail(msgspec.Struct, frozen=True):
    """An entry of the response."""

    transaction_info: Info


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """A page of the response."""

    transaction_details: list[Detail] = []
    total_pages: int = 0


# Fetches the page with a number of the movements between two times; None if there are too many.
FindPage = Callable[[int, int, int], Awaitable[Page | None]]


async def write(find: FindPage, target: BinaryIO, since: int, until: int) -> None:
    """Write the movements between two times (Unix ms, inclusive), day by day."""
    target.write(_COLUMNS.encode())
    for start, end in ranges(since, until):
        await _write_range(find, target, start, end)


async def _write_range(find: FindPage, target: BinaryIO, since: int, until: int) -> None:
    """Write the movements of a range, which is halved if it has too many for PayPal."""
    number = pages = 1
    while number <= pages:
        page = await find(since, until, number)
        if page is None or (number == 1 and since < until and page.total_pages > _MOST_PAGES):
            middle = since + (until - since) // 2000 * 1000
            await _write_range(find, target, since, middle)
            await _write_range(find, target, middle + 1000, until)
            return
        number, pages = number + 1, page.total_pages
        target.write(lines(page).encode())


def lines(page: Page) -> str:
    """Return a page as lines of CSV. Raises ConfigurationError for one that cannot be read."""
    try:
        texts = [detail.transaction_info.line for detail in page.transaction_details]
    except ValueError as error:
        msg = f"a movement of PayPal's cannot be read: {error}"
        raise ConfigurationError(msg) from None
    return "".join(line for line in texts if line is not None)


def ranges(since: int, until: int) -> Iterator[tuple[int, int]]:
    """Yield the days, in whole seconds, into which a range of time is cut (Unix ms, inclusive)."""
    start, until = since // 1000 * 1000, until // 1000 * 1000
    while start <= until:
        end = min(start + DAY_MS - 1000, until)
        yield start, end
        start = end + 1000


def path(since: int, until: int, page: int) -> str:
    """Return the path of a page of the movements between two times (Unix ms, inclusive)."""
    query = {
        "start_date": _time(since),
        "end_date": _time(until),
        "fields": "transaction_info",
        "page_size": str(_PAGE),
        "page": str(page),
    }
    return f"/v1/reporting/transactions?{urlencode(query)}"


def _time(ms: int) -> str:
    return datetime.fromtimestamp(ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _decimal(money: Money) -> str:
    exponent = EXPONENTS[money.currency]
    whole, fraction = divmod(money.minor, 10**exponent)
    return f"{whole}.{fraction:0{exponent}}" if exponent else str(whole)
