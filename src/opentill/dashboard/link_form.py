"""The forms that create and change a payment link: their entries, and the errors of all fields."""

import re
from collections.abc import Mapping
from datetime import date
from typing import Any, Final
from zoneinfo import ZoneInfo

import msgspec

from opentill import payment_links
from opentill.core import amounts
from opentill.core.errors import Invalid
from opentill.core.money import EXPONENTS
from opentill.figures.model import day_bounds, local
from opentill.http import strictjson
from opentill.payment_links import LinkBody, LinkUpdate, PaymentLink
from opentill.portal import form_checks
from opentill.portal.labels import AMOUNT_ERROR
from opentill.portal.request import PageRequest
from opentill.web.translations import N_

Entries = dict[str, str]  # the input of a form, by field

UNDECIDED: Final[str] = "undecided"  # the form's product until somebody chooses one; "": no product
FIELDS: Final = (
    "product", "name", "currency", "pricing", "price", "least", "most", "quantity", "uses",
    "expires", "reference",
)  # fmt: skip
_AMOUNT_ERROR: Final = N_("Enter an amount from 0.01 to 99,999,999.99, such as 24.90")
# Maps how an item is priced to the fields of the form with its amounts, and the item's fields.
AMOUNTS: Final = {
    "fixed": {"price": "price"},
    "open": {"least": "minAmount", "most": "maxAmount"},
}
# Maps a field of the service to a field of the form and its error text.
_ERRORS: Final = {
    "productId": ("product", N_("Choose one of your active products")),
    "item.name": ("name", N_("Enter a name of 1 to 200 characters")),
    "item.description": ("description", N_("Enter at most 1,000 characters")),
    "item.currency": ("currency", N_("Choose one of the currencies")),
    "item.price": ("price", _AMOUNT_ERROR),
    "item.minAmount": ("least", _AMOUNT_ERROR),
    "item.maxAmount": ("most", N_("Enter more than the minimum amount")),
    "maxQuantity": (
        "quantity",
        N_("Enter a whole number from 1 to 99; 1 where the customer enters the amount"),
    ),
    "maxUses": ("uses", N_("Enter a whole number from 1 to 100000, or leave it empty")),
    "expiresAt": ("expires", N_("Choose today or a day to come, or leave it empty")),
    "clientReference": ("reference", N_("Enter at most 200 characters, or leave it empty")),
}
# Valid entries in place of wrong ones, so that the fields after them are checked too. In place of a
# wrong product, an item is checked.
_ITEM: Final = {"name": "-", "currency": "USD", "pricing": "fixed", "price": "1"}
_VALID: Final = {
    "product": {"product": "", **_ITEM},
    "name": {"name": "-"},
    "description": {"description": ""},
    "currency": {"currency": "USD"},
    "price": {"price": "1"},
    "most": {"most": "99999999"},
    "quantity": {"quantity": ""},
    "uses": {"uses": ""},
    "expires": {"expires": ""},
    "reference": {"reference": ""},
}
CHANGE_FIELDS: Final = ("name", "description", "quantity", "uses", "expires", "reference")
ITEM_FIELDS: Final = ("name", "description")  # of a link that sells no product
TERMS_FIELDS: Final = tuple(name for name in CHANGE_FIELDS if name not in ITEM_FIELDS)
NUMBER: Final = re.compile(r"[0-9]{1,15}", re.ASCII)


def build_body(entries: Mapping[str, str], zone: ZoneInfo) -> LinkBody:
    """Decode entries as the API decodes its bodies. Raises Invalid."""
    values: dict[str, Any] = {"clientReference": entries["reference"] or None}
    is_open = entries["pricing"] == "open" and not entries["product"]
    if entries["product"]:
        values["productId"] = entries["product"]
    else:
        currency = entries["currency"]
        values["item"] = {"name": entries["name"], "currency": currency} | {
            field: amounts.parse_entry(f"item.{field}", entries[name], currency)
            for name, field in AMOUNTS["open" if is_open else "fixed"].items()
        }
    for field, name in (("maxQuantity", "quantity"), ("maxUses", "uses")):
        # The form hides the quantity where the customer chooses the amount.
        if entries[name] and not (is_open and name == "quantity"):
            values[field] = _parse_integer(entries[name])
    if entries["expires"]:
        values["expiresAt"] = _end_of_day(entries["expires"], zone)
    return strictjson.decode(msgspec.json.encode(values), LinkBody)


def _end_of_day(text: str, zone: ZoneInfo) -> int:
    """Return the end of an entered day, Unix ms. Raises Invalid."""
    try:
        day = date.fromisoformat(text)
        return day_bounds(day, zone).until
    except (ValueError, OverflowError):
        raise Invalid("expiresAt", "expiresAt must be a day to come") from None


def _read_error(problem: Invalid) -> dict[str, str]:
    """Return the error text, by the field of the form that a problem is about."""
    name, text = _ERRORS.get(
        problem.field or "", ("add", N_("The link could not be made. Check what you entered"))
    )
    if isinstance(problem, amounts.UnreadableAmount):
        text = AMOUNT_ERROR.get(problem.problem, _AMOUNT_ERROR)
    return {name: text}


def stored_entries(link: PaymentLink, zone: ZoneInfo) -> Entries:
    """Return a link's values as entries of the form that changes it."""
    return {
        "name": link.name or "",
        "description": link.description,
        "quantity": str(link.max_quantity),
        "uses": "" if link.max_uses is None else str(link.max_uses),
        "expires": "" if link.expires_at is None else _last_day(link.expires_at, zone),
        "reference": link.client_reference or "",
    }


def _last_day(moment: int, zone: ZoneInfo) -> str:
    """Return the last day before ``moment`` (Unix ms), which may be the midnight after that day."""
    return local(moment - 1, zone).date().isoformat()


def build_update(entries: Mapping[str, str], link: PaymentLink, zone: ZoneInfo) -> LinkUpdate:
    """Decode entries as the API decodes its bodies. Raises Invalid."""
    values: dict[str, Any] = {
        "clientReference": entries["reference"] or None,
        "maxQuantity": _parse_integer(entries["quantity"] or "1"),
        "maxUses": _parse_integer(entries["uses"]) if entries["uses"] else None,
    }
    if link.product_id is None:
        values["item"] = {name: entries[name] for name in ("name", "description")}
    # An unchanged day must not replace a time within the day that the API has set.
    if entries["expires"] != stored_entries(link, zone)["expires"]:
        values["expiresAt"] = _end_of_day(entries["expires"], zone) if entries["expires"] else None
    return strictjson.decode(msgspec.json.encode(values), LinkUpdate)


def _parse_integer(text: str) -> int | str:
    """Return the text as a number, or unchanged if it is not a number."""
    return int(text) if NUMBER.fullmatch(text) else text


async def collect_errors(request: PageRequest, entries: Entries, zone: ZoneInfo) -> dict[str, str]:
    """Return the errors of all fields of the form that creates a link."""

    async def check(entries: Mapping[str, str]) -> None:
        body = build_body(entries, zone)
        async with request.app.db.connection() as tx:
            await payment_links.check(
                tx, request.app.gateways, request.merchant_id, body, request.now
            )

    least = "0.01" if EXPONENTS.get(entries["currency"]) else "1"
    valid = {**_VALID, "least": {"least": least}}
    return await form_checks.collect_errors(entries, check, _read_error, valid)


async def collect_change_errors(
    entries: Entries, link: PaymentLink, zone: ZoneInfo, now: int
) -> dict[str, str]:
    """Return the errors of all fields of the form that changes a link."""

    async def check(entries: Mapping[str, str]) -> None:
        payment_links.check_changes(link, build_update(entries, link, zone), now)

    return await form_checks.collect_errors(entries, check, _change_error, _VALID)


def _change_error(problem: Invalid) -> dict[str, str]:
    """Return the error text, by the field of the form that a problem is about."""
    error = _ERRORS.get(
        problem.field or "", ("edit", N_("The link could not be changed. Check what you entered"))
    )
    return dict([error])
