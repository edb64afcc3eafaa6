"""The bank account for a merchant's payouts, and the form that replaces it.

The form contains the version of the account that it showed, so that nobody overwrites another
person's change unseen. Only the last characters of the number are shown. Owners use the dashboard's
page, staff the console's.
"""

from collections.abc import Awaitable, Callable
from typing import Final
from zoneinfo import ZoneInfo

import msgspec
from starlette.responses import Response

from opentill import ledger, merchants, payouts, people
from opentill.core import bankaccounts
from opentill.core.bankaccounts import BankAccount
from opentill.core.errors import Invalid
from opentill.core.money import Money
from opentill.db.database import Tx
from opentill.merchants import Merchant
from opentill.payouts import StoredAccount
from opentill.people import Permission
from opentill.portal import bank_fields, render
from opentill.portal.labels import BANK_ACCOUNT_ERROR
from opentill.portal.request import PageRequest

_ADDRESS: Final = ("street", "building", "postcode", "town", "addresscountry")
_FIELDS: Final = (
    "holder", "country", "account", "repeat", "bic", "clearing", "branch", *_ADDRESS, "reason",
)  # fmt: skip
FIELDS: Final = (*_FIELDS[:-1], "version")  # of the form, which has a reason in the console only
# Field of a bank account → its name in the form, for the fields whose names differ.
_NAMES: Final = {
    "bankCode": "clearing", "postCode": "postcode", "addressCountry": "addresscountry",
}  # fmt: skip


class Place(msgspec.Struct, frozen=True):
    """How a portal shows the page of the bank account."""

    permission: Permission  # the permission that replacing the account needs
    zone: ZoneInfo | None = None  # the time zone of the page; None: the merchant's
    reason: str = ""  # the reason that the audit log gets; "": the form has a field for it
    # Says when the next payout is expected, where the page does.
    read_schedule: Callable[[Tx, PageRequest, Merchant], Awaitable[str]] | None = None


async def show(
    request: PageRequest,
    place: Place,
    status: int = 200,
    errors: dict[str, str] | None = None,
    typed: dict[str, str] | None = None,
) -> Response:
    """Show the account, and the form if the person may replace it. Raises NotFound."""
    async with request.app.db.connection() as tx:
        merchant = await merchants.find(tx, request.merchant_id)
        stored = await payouts.find_account(tx, request.merchant_id)
        held_since = await payouts.account_held_since(tx, request.merchant_id)
        balances = await ledger.trial_balance(tx, request.merchant_id)
        read = place.read_schedule
        schedule = await read(tx, request, merchant) if read else ""
    countries = [
        (code, name)
        for code, name in request.localizer.countries()
        if code not in bank_fields.UNINHABITED
    ]
    country = _choose_country(request, typed, stored, merchant, frozenset(dict(countries)))
    rule = bank_fields.of_country(country) if country else None
    values = {name: (typed or {}).get(name, "") for name in _FIELDS}
    folded = (*_ADDRESS, "bic") if rule is not None and rule.is_iban else _ADDRESS
    return render.page(
        request,
        "bank_account.html",
        status,
        merchant=merchant,
        stored=stored,
        held_since=held_since,
        schedule=schedule,
        waits=stored is not None and stored.usable_from > request.now,
        zone=place.zone or ZoneInfo(merchant.time_zone),
        values=values,
        hold_days=request.app.settings.bank_account_hold_days,
        may=request.may(place.permission),
        asks_reason=not place.reason,
        bank_countries=countries,
        country=country,
        rule=rule,
        opens_fold=any(values[name] or name in (errors or {}) for name in folded),
        repeated=bank_fields.REPEATED,
        bank_country=dict(countries).get(stored.country, stored.country) if stored else "",
        available=[
            request.localizer.amount(Money(row.available, row.currency))
            for row in balances
            if row.available > 0
        ],
        stored_code=bank_fields.format_code(stored.country, stored.bank_code) if stored else "",
        stored_code_label=bank_fields.code_label(stored.country) if stored else "",
        errors=errors or {},
    )


def _choose_country(
    request: PageRequest,
    typed: dict[str, str] | None,
    stored: StoredAccount | None,
    merchant: Merchant,
    countries: frozenset[str],
) -> str:
    """Return the bank's country whose fields the form shows, "" if nobody has chosen one.

    A merchant without an account probably has one where its currency comes from.
    """
    if typed is not None:
        chosen = typed["country"]
    elif "country" in request.query:
        chosen = request.query["country"]
    elif stored is not None:
        chosen = stored.country
    else:
        chosen = bank_fields.country_of_currency(merchant.settlement_currency, countries)
    return chosen.upper() if chosen.upper() in countries else ""


async def check(request: PageRequest, place: Place) -> Response | None:
    """Check the entries of the form. Raises NotFound."""
    account = await _parse(request, place)
    return account if isinstance(account, Response) else None


async def _read(request: PageRequest) -> dict[str, str]:
    """Return the entries of the form; the country of an IBAN need not be chosen."""
    form = await request.form()
    typed = {name: form.get(name, "") for name in _FIELDS}
    number = bankaccounts.plain(typed["account"])
    if not typed["country"] and bankaccounts.is_iban(number):
        typed["country"] = number[:2]
    return typed


async def _parse(request: PageRequest, place: Place) -> BankAccount | Response:
    """Return the account in the form, or the page with the errors of the form."""
    typed = await _read(request)
    number = bankaccounts.plain(typed["account"])
    country = bankaccounts.plain(typed["country"])
    fields = bank_fields.of_country(country)
    # An IBAN names its bank, also in a country whose accounts have other numbers.
    is_iban = bankaccounts.is_iban(number) and number[:2] == country
    mistakes = [] if is_iban else fields.find_mistakes(typed)
    errors = {
        field.name: field.error_text(request.localizer, typed[field.name]) for field in mistakes
    }
    if not country:
        errors = {"country": BANK_ACCOUNT_ERROR["country"]}
    if errors:
        return await show(request, place, 400, errors, typed)
    bic, bank_code = fields.read_bank(typed)
    try:
        account = bankaccounts.check_account(
            typed["holder"], number, country=country, bic=bic, bank_code=bank_code
        )
        address = bankaccounts.check_address(
            street=typed["street"],
            building=typed["building"],
            post_code=typed["postcode"],
            town=typed["town"],
            country=typed["addresscountry"],
        )
        if not place.reason:
            merchants.check_text("reason", typed["reason"])
        return msgspec.structs.replace(account, address=address)
    except Invalid as problem:
        # The form of the fields has been checked above, so only check digits can be wrong in them.
        field = _NAMES.get(str(problem.field), str(problem.field))
        mistake = fields.find(field)
        error = (
            mistake.check_digits_error(request.localizer, typed[field])
            if mistake is not None
            else BANK_ACCOUNT_ERROR[field]
        )
        return await show(request, place, 400, {field: error}, typed)


async def save(request: PageRequest, place: Place) -> Response:
    """Replace the account from now on. Raises NotFound."""
    account = await _parse(request, place)
    if isinstance(account, Response):
        return account
    typed, shown = await _read(request), (await request.form()).get("version", "")
    settings = request.app.settings
    version = int(shown) if shown.isascii() and shown.isdecimal() and len(shown) < 9 else -1  # noqa: PLR2004 - digits
    rule = payouts.HoldRule(settings.secret_key, settings.bank_account_hold_days)
    actor = people.actor_of(request.login, place.reason or typed["reason"].strip())
    try:
        await request.app.db.run(
            lambda tx: payouts.change_account(
                tx, request.merchant_id, account, actor, rule, request.now, version
            )
        )
    except merchants.Stale:
        return await show(request, place, 409, {"account": BANK_ACCOUNT_ERROR["stale"]}, typed)
    return render.see_other(request, f"{request.path}?saved=1")
