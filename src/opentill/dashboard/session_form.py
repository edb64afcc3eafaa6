"""The form that opens a checkout session: its entries, and the errors of all fields."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from opentill import checkouts, gateways, merchants, products
from opentill.checkouts import AmountOutOfBounds, SessionBody
from opentill.core import amounts
from opentill.core.errors import Invalid, NotFound
from opentill.core.ids import is_id
from opentill.core.payment_methods import METHODS, Method
from opentill.db.database import Tx
from opentill.http import strictjson
from opentill.portal import form_checks
from opentill.portal.labels import AMOUNT_ERROR
from opentill.portal.request import PageRequest
from opentill.web.translations import N_

Entries = Mapping[str, str]

ITEM: Final = "item"  # the choice of a name and a price in place of a product
_AMOUNT_ERROR: Final = N_("Enter an amount from 0.01 to 99,999,999.99, such as 24.90")
# Maps a field of the service to a field of the form and its error text.
_ERRORS: Final = {
    "sold": ("sold", N_("Choose one of your products")),
    "item.name": ("name", N_("Enter a name of 1 to 200 characters")),
    "item.price": ("price", _AMOUNT_ERROR),
    "item.currency": ("currency", N_("Choose one of the currencies")),
    "customerEmail": ("email", N_("Enter an email address such as name@example.com")),
    "successUrl": (
        "success",
        N_(
            "Enter a whole address such as https://shop.example.com/page, "
            "of at most 2,048 characters, without spaces, user name and "
            "password"
        ),
    ),
    "quantity": (
        "quantity",
        N_("Enter a whole number from 1 to 99, so that the total is at most 99,999,999.99"),
    ),
    "clientReference": ("reference", N_("Enter at most 200 characters, or leave it empty")),
    "expiresIn": ("lasting", N_("Choose one of the list")),
    "locale": ("locale", N_("Choose one of the list")),
    "paymentMethods": ("methods", N_("Select at least one of the payment methods")),
}
# The fields that every form of a session has. Only a form that offers several methods has theirs,
# and only the form of the list has those of what is sold.
DECLARED: Final = ("email", "success", "quantity", "reference", "lasting", "locale")
SOLD: Final = ("sold", "name", "price", "currency")
_METHODS: Final = tuple(f"method_{method}" for method in METHODS)
FIELDS: Final = (*SOLD, "quantity", "email", "success", "reference", "lasting", "locale",
                 "methods_shown", *_METHODS)  # fmt: skip
_DIGITS: Final = re.compile(r"[0-9]{1,4}", re.ASCII)


async def check(tx: Tx, request: PageRequest, entries: Entries) -> SessionBody:
    """Return the body of the session to open. Raises Invalid.

    Raises NotFound if the product in the path does not exist.
    """
    currency = await _find_currency(tx, request, entries)
    offered = gateways.offered_methods(
        request.app.gateways, currency, merchant_id=request.merchant_id
    )
    body = _build_body(_product_id(request, entries), entries, offered)
    await checkouts.check_methods(tx, request.app.gateways, request.merchant_id, body)
    return body


def _product_id(request: PageRequest, entries: Entries) -> str:
    """Return the id of the product in the path or of the form's choice; "" for an item."""
    return request.ids.get("product") or entries["sold"].removeprefix(ITEM)


async def _find_currency(tx: Tx, request: PageRequest, entries: Entries) -> str:
    """Return the currency of what is sold.

    Raises NotFound for a product in the path, Invalid for the form's choice.
    """
    if "product" not in request.ids and entries["sold"] == ITEM:
        return entries["currency"]
    product_id = _product_id(request, entries)
    try:
        if is_id(product_id):
            product = await products.find(tx, request.merchant_id, product_id)
            return product.currency
    except NotFound:
        if "product" in request.ids:
            raise
    raise Invalid("sold", "sold must be the id of a product")


def _build_body(product_id: str, entries: Entries, offered: Sequence[Method]) -> SessionBody:
    """Decode entries as the API decodes its bodies. Raises Invalid.

    The form selects every method at first, also those that only other products' currencies have.
    A session that offers all methods of its currency names none.
    """
    minutes, quantity = entries["lasting"], entries["quantity"]
    methods = [method for method in METHODS if entries[f"method_{method}"]]
    if entries["methods_shown"]:
        methods = [method for method in methods if method in offered]
        if not methods and len(offered) > 1:
            raise Invalid("paymentMethods", "paymentMethods must name at least one method")
        if set(methods) == set(offered):
            methods = []
    values: dict[str, Any] = {
        "productId": product_id,
        "customerEmail": entries["email"],
        "successUrl": entries["success"],
        "clientReference": entries["reference"],
        "locale": entries["locale"],
        "paymentMethods": methods,
        "quantity": int(quantity) if _DIGITS.fullmatch(quantity) else quantity,
        "expiresIn": int(minutes) * 60_000 if _DIGITS.fullmatch(minutes) else minutes,
    }
    if not product_id:
        values["item"] = {
            "name": entries["name"],
            "currency": entries["currency"],
            "price": amounts.parse_entry("item.price", entries["price"], entries["currency"]),
        }
    body = {name: value for name, value in values.items() if value not in ("", [])}
    return strictjson.decode(msgspec.json.encode(body), SessionBody)


async def collect_errors(request: PageRequest, entries: Entries) -> dict[str, str]:
    """Return the errors of all fields, or the reason that prevents any session."""
    async with request.app.db.connection() as tx:
        merchant = await merchants.find(tx, request.merchant_id)

    max_age = request.app.settings.rates_max_age_days

    async def check_all(entries: Entries) -> None:
        async def work(tx: Tx) -> None:
            body = await check(tx, request, entries)
            await checkouts.prepare(
                tx, request.merchant_id, body, request.now, rates_max_age_days=max_age
            )

        await request.app.db.run(work)

    has_method = any(entries[name] for name in _METHODS)
    valid: dict[str, Entries] = {
        **_VALID,
        # An item in the currency that needs no exchange rate.
        "sold": {
            "sold": ITEM,
            "name": "-",
            "price": "1",
            "currency": merchant.settlement_currency,
            **(dict.fromkeys(_METHODS, "yes") if has_method else {}),
        },
        "currency": {"currency": merchant.settlement_currency, "price": "1"},
    }
    errors = await form_checks.collect_errors(entries, check_all, _read_error, valid)
    if "open" in errors and "product" in request.ids:
        async with request.app.db.connection() as tx:
            product = await products.find(tx, request.merchant_id, request.ids["product"])
        if product.status == "ARCHIVED":
            del errors["open"]
            errors["main"] = N_("This product is archived: no session can be opened for it")
    return errors


# Valid entries in place of wrong ones, so that the fields after them are checked too.
_VALID: Final[Mapping[str, Entries]] = {
    "name": {"name": "-"},
    "price": {"price": "1"},
    "email": {"email": ""},
    "success": {"success": ""},
    "quantity": {"quantity": "1"},
    "reference": {"reference": ""},
    "lasting": {"lasting": ""},
    "locale": {"locale": ""},
    "methods": {"methods_shown": "", **dict.fromkeys(_METHODS, "")},
}


def _read_error(problem: Invalid) -> dict[str, str]:
    """Return the error text for the field, or for the whole form, that prevented the session."""
    if isinstance(problem, amounts.UnreadableAmount):
        return {"price": AMOUNT_ERROR.get(problem.problem, _AMOUNT_ERROR)}
    if isinstance(problem, AmountOutOfBounds):
        return {
            "open": N_(
                "At the exchange rate of today this price is worth too little "
                "or too much: choose another price"
            )
        }
    if field_error := _ERRORS.get(problem.field or ""):
        return dict([field_error])
    return {
        "open": N_(
            "There is no exchange rate for the currency of this product. "
            "The operator of this service sets it"
        )
    }
