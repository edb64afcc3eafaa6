"""The columns of the CSV export of orders, and the SQL of their cells."""

from collections.abc import Callable
from typing import Final, NamedTuple

from opentill.core.money import EXPONENTS
from opentill.core.settings import SANDBOX
from opentill.gateways.account import TEST_PREFIX
from opentill.http import csvfile
from opentill.orders.model import OPERATOR
from opentill.orders.statuses import EXPORTED_STATUS

# These functions build the SQL of a cell, which must return the same bytes as ``http/csvfile.py``.
# Their arguments are names of columns.


def quote(text: str) -> str:
    """Quote a cell if RFC 4180 requires it."""
    special = "position({} in {}) = 0"
    plain = " and ".join(special.format(c, text) for c in ("'\"'", "','", "e'\\n'", "e'\\r'"))
    return f"""case when {plain} then {text} else '"' || replace({text}, '"', '""') || '"' end"""


def _inert(text: str) -> str:
    """Put an apostrophe before formulas in user text, as csvfile.format_cell does."""
    return f"""case when {text} ~ '{csvfile.ANYWHERE}' then
        case when {text} ~ '{csvfile.AT_START}' then '''' else '' end
        || regexp_replace({text}, '{csvfile.AFTER_SEPARATOR}', '\\1''', 'g') else {text} end"""


def _inert_json(text: str) -> str:
    """Escape formulas in user JSON, as csvfile.format_cell does."""
    # In a replacement, regexp_replace reads two backslashes as one.
    escaped = csvfile.JSON_SEMICOLON.replace("\\", "\\\\")
    return f"""case when position(';' in {text}) = 0 then {text}
        else regexp_replace({text}, '{csvfile.IN_JSON}', '{escaped}', 'g') end"""


def _codes(decimals: int) -> str:
    return ", ".join(f"'{code}'" for code, has in EXPONENTS.items() if has == decimals)


def unit(currency: str) -> str:
    """Return SQL for the value of a minor unit, such as 0.01.

    PostgreSQL looks a currency up in these lists by a hash.
    """
    return f"""case when {currency} in ({_codes(2)}) then 0.01 when {currency} in ({_codes(3)})
        then 0.001 when {currency} in ({_codes(0)}) then 1.00 end"""


def _utc(millis: str) -> str:
    """Format a time as csvfile.format_utc does."""
    return f"""trim('"' from to_json(timestamp '1970-01-01'
        + {millis} / 1000 * interval '1 second')::text)
        || '.' || right((1000 + {millis} % 1000)::text, 3) || 'Z'"""


def _local(millis: str) -> str:
    """Format a time, to the second, in the time zone `:zone`."""
    return f"""to_char(to_timestamp({millis} / 1000) at time zone :zone::text,
        'YYYY-MM-DD HH24:MI:SS')"""


class Column(NamedTuple):
    """A column of the file: its name, and the SQL of its cells, which is never null.

    For user text, ``sql`` is instead a column of orders, which may be null, and ``text`` builds the
    SQL that escapes formulas in it.
    """

    name: str
    sql: str
    text: Callable[[str], str] | None = None
    about: str = ""  # the content, for readers of the API reference; "" in the dashboard's columns


# Add new columns at the end, so that the others keep their positions. `unit` and `settled_unit` are
# the values of a minor unit; amounts are whole hundredths, so that rounding loses nothing.
# `:livemode` is whether real money can be paid in this deployment (livemode.all_with_livemode).
COLUMNS: Final = (
    Column("id", "id", about="the order's id"),
    Column("checkoutSessionId", "checkout_id", about="the id of its checkout session"),
    Column(
        "productId",
        "product_id",
        about="the id of the product that was sold, or that stands for items",
    ),
    Column(
        "customerEmail",
        "customer_email",
        _inert,
        about="the customer's email address, empty if unknown",
    ),
    Column("customerName", "customer_name", _inert, about="the customer's name, empty if unknown"),
    Column(
        "amount", "round(amount_minor * unit, 2)", about="what the customer pays, in `currency`"
    ),
    Column(
        "currency", "currency", about="ISO 4217 code of the currency in which the customer pays"
    ),
    Column(
        "platformFeeRate",
        "trim_scale(platform_fee_rate)",
        about="the rate of the platform's fee, as a decimal fraction",
    ),
    Column(
        "platformFee",
        "round(platform_fee_minor * unit, 2)",
        about="the platform's fee, in `currency`",
    ),
    Column(
        "netAmount",
        "round((amount_minor - platform_fee_minor) * unit, 2)",
        about="the amount less the fee, in `currency`",
    ),
    Column(
        "settledAmount",
        "round(net_settled_minor * settled_unit, 2)",
        about="the net amount in `settledCurrency`",
    ),
    Column(
        "settledCurrency",
        "settled_currency",
        about="ISO 4217 code of the merchant's settlement currency",
    ),
    Column(
        "exchangeRate",
        "trim_scale(exchange_rate)",
        about="what one unit of `currency` is worth in `settledCurrency`",
    ),
    Column(
        "hkdExchangeRate",
        "coalesce(trim_scale(hkd_exchange_rate)::text, '')",
        about="what one unit of `currency` is worth in HKD, empty if there was no rate",
    ),
    Column(
        "paymentMethod",
        "coalesce(payment_method, '')",
        about="the method of the payment, empty before the customer has chosen one",
    ),
    Column("status", "status", about="the order's status"),
    Column(
        "paidAt",
        "coalesce(paid_at::text, '')",
        about="when the order was paid, Unix ms; empty if it is not paid",
    ),
    Column(
        "settledAt",
        "coalesce(settled_at::text, '')",
        about="when the order was settled, Unix ms; empty if it is not settled",
    ),
    Column("metadata", "metadata", _inert_json, about="the session's metadata as a JSON object"),
    Column("createdAt", "created_at", about="when the order was created, Unix ms"),
    Column(
        "refundStatus",
        "case refunded_minor when 0 then 'NONE' when amount_minor then 'FULL' else 'PARTIAL' end",
        about="NONE, PARTIAL or FULL, by the refunds that have succeeded",
    ),
    Column(
        "refundedAmount",
        "case refunded_minor when 0 then '0' else round(refunded_minor * unit, 2)::text end",
        about="sum of the refunds that have succeeded, in `currency`",
    ),
    Column("createdAtUtc", _utc("created_at"), about="`createdAt` as ISO 8601 in UTC"),
    Column(
        "paidAtUtc",
        f"coalesce({_utc('paid_at')}, '')",
        about="`paidAt` as ISO 8601 in UTC, empty if it is not paid",
    ),
    Column(
        "livemode",
        f"""
        (case when livemode is not null then livemode
            when paid_attempt_id is null then :livemode
            else coalesce((
                select nullif(gateway, '{OPERATOR}') <> '{SANDBOX}'
                    and split_part(gateway, '_', 1) <> '{TEST_PREFIX}' from payment_attempts a
                where a.merchant_id = :merchant_id and a.id = o.paid_attempt_id), :livemode)
            end)::text
        """,  # noqa: S608 - interpolates constants of this program only
        about="true if the money is real, else false",
    ),
    Column("quantity", "coalesce(quantity, 1)", about="how many were sold"),
    Column(
        "clientReference",
        "client_reference",
        _inert,
        about="the shop's own number, empty if the session was created without one",
    ),
    Column(
        "paymentLinkId",
        "coalesce(payment_link_id, '')",
        about="the id of the payment link, empty if none opened the session",
    ),
    Column("productName", "product_name", _inert, about="the name of what was sold, at that time"),
)
# The status that pages show (statuses.py); SETTLED stands for PAID.
_SHOWN: Final = """coalesce(split_part(shown_exception(status, closed_as, attempt_failed,
    refund_failed, refund_held_minor, refunded_minor, amount_minor), ' ', 2), status)"""
_EXPORTED: Final = " ".join(
    f"when '{shown}' then '{name}'" for shown, name in EXPORTED_STATUS.items()
)
# Only the file that the dashboard offers has these columns: times in the merchant's time zone, and
# the status that its list shows, where `status` is the one in the API.
LOCAL_COLUMNS: Final = (
    Column("createdAtLocal", _local("created_at")),
    Column("paidAtLocal", f"coalesce({_local('paid_at')}, '')"),
    Column("timeZone", ":zone::text"),
    Column("paymentStatus", f"case {_SHOWN} when 'SETTLED' then 'PAID' {_EXPORTED} end"),
)
# SQL for the approximate size (bytes) of an order's line; only texts of users can be long.
LINE_SIZE: Final = "350 + " + " + ".join(
    f"coalesce(octet_length({column.sql}), 0)" for column in COLUMNS if column.text
)
