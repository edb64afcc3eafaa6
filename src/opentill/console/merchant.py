"""The page of a merchant: profile, balances, terms with their versions, agreement and members."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from starlette.responses import Response

from opentill import agreement, ledger, merchants, people
from opentill.console import terms
from opentill.console.labels import ACCOUNT, TERM, TERM_VALUE
from opentill.console.merchants import PLACE
from opentill.console.zone import ZONE
from opentill.core import money
from opentill.core.money import Money
from opentill.ledger import TrialBalance
from opentill.merchants import Merchant, Terms, TermsVersion
from opentill.people import Permission
from opentill.portal import render
from opentill.portal.model import Page
from opentill.portal.request import PageRequest
from opentill.web.language import Localizer
from opentill.web.translations import N_, NC_

# Pages of the merchant's dashboard that staff may open: label, path below the dashboard,
# permission.
_DASHBOARD_PAGES: Final[tuple[tuple[str, str, Permission], ...]] = (
    (N_("Home"), "/", "home.read"),
    (NC_("menu", "Payments"), "/payments", "payments.read"),
    (N_("Customers"), "/customers", "customers.read"),
    (N_("Products"), "/products", "products.read"),
    (N_("Disputes"), "/disputes", "disputes.read"),
    (N_("Balance"), "/balance", "balance.read"),
    (N_("Payouts"), "/payouts", "payouts.read"),
    (N_("API keys"), "/developers/keys", "keys.read"),
    (N_("Webhooks"), "/developers/webhooks", "endpoints.read"),
    (N_("API errors"), "/developers/requests", "requests.read"),
    (N_("Epay"), "/developers/epay", "epay.read"),
    (N_("Settings"), "/settings", "settings.read"),
    (N_("Team"), "/team", "team.read"),
)
_ACCOUNTS: Final = ("available", "pending", "frozen", "reserve")


class VersionChanges(msgspec.Struct, frozen=True):
    """A version of the terms and its changes: text of the term, old value, new value."""

    version: TermsVersion
    changes: list[tuple[str, str, str]]


async def show_merchant(request: PageRequest) -> Response:
    """Show a merchant. Raises NotFound."""
    merchant_id, localizer = request.merchant_id, request.localizer
    async with request.app.db.connection() as tx:
        merchant = await merchants.find(tx, merchant_id)
        balances = await ledger.trial_balance(tx, merchant_id)
        versions = await merchants.history(tx, merchant_id)
        acceptances = await agreement.acceptances(tx, merchant_id)
        members = await people.members(tx, merchant_id)
    return render.page(
        request,
        "merchant.html",
        merchant=merchant,
        zone=ZONE,
        balances=[(balance.currency, _balance_rows(localizer, balance)) for balance in balances],
        terms=_term_rows(localizer, merchant),
        versions=_versions(localizer, versions, merchant.settlement_currency),
        agreement=agreement.status(agreement.current(request.app.settings), acceptances),
        acceptance=acceptances[0] if acceptances else None,
        members=members,
        dashboard_pages=[
            (name, f"{request.base}/dashboard/{merchant_id}{path}")
            for name, path, permission in _DASHBOARD_PAGES
            if request.may(permission)
        ],
    )


def _balance_rows(localizer: Localizer, balance: TrialBalance) -> list[tuple[str, str]]:
    amounts = {name: Money(getattr(balance, name), balance.currency) for name in _ACCOUNTS}
    return [(ACCOUNT[name], localizer.amount(amount)) for name, amount in amounts.items()]


def _term_rows(localizer: Localizer, merchant: Merchant) -> list[tuple[str, str]]:
    currency = merchant.settlement_currency
    return [
        (TERM[name], _write_term(localizer, name, getattr(merchant, name), currency))
        for name in Terms.__struct_fields__
    ]


def _versions(
    localizer: Localizer, versions: Sequence[TermsVersion], currency: str
) -> list[VersionChanges]:
    """Return the versions with their changes, newest first."""
    history: list[VersionChanges] = []
    for version, previous in zip(versions, [None, *versions], strict=False):
        pairs = {} if previous is None else merchants.differences(previous, version)
        changes = [
            (
                TERM[name],
                _write_term(localizer, name, old, currency),
                _write_term(localizer, name, new, currency),
            )
            for name, (old, new) in pairs.items()
        ]
        history.append(VersionChanges(version, changes))
    return history[::-1]


def _write_term(localizer: Localizer, name: str, value: Any, currency: str) -> str:
    """Write the value of a term in the reader's language."""
    if name.endswith("_minor"):
        return localizer.amount(Money(value, currency))
    if name == "fees":
        return ", ".join(map(terms.fee_text, merchants.read_fees(value))) or "–"
    if name.endswith("_rate"):
        return f"{money.rate_text(value * 100)} %"
    if name == "ip_allowlist":
        return ", ".join(value) or "–"
    return (
        localizer.gettext(TERM_VALUE[value]) if isinstance(value, str) else localizer.number(value)
    )


pages: Final = (Page("GET", f"{PLACE}/{{merchant:id}}", "merchants.read", show_merchant),)
