"""The page of a merchant: profile, balances, terms with their versions, agreement and members."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

import msgspec
from starlette.responses import Response

from opentill import agreement, figures, ledger, merchants, orders, payouts, people
from opentill.console import terms
from opentill.console.labels import ACCOUNT
from opentill.console.merchant_labels import TERM, TERM_VALUE
from opentill.console.merchant_tasks import list_tasks
from opentill.console.merchants import PLACE
from opentill.console.zone import ZONE
from opentill.core.money import Money
from opentill.figures.model import day_bounds, local
from opentill.ledger import TrialBalance
from opentill.merchants import Merchant, Terms, TermsVersion
from opentill.orders import Order, OrdersQuery
from opentill.payouts import StoredAccount
from opentill.people import Permission
from opentill.portal import lists, render
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
    (N_("Statement"), "/balance/statement", "balance.read"),
    (N_("Payouts"), "/payouts", "payouts.read"),
    (N_("API keys"), "/developers/keys", "keys.read"),
    (N_("Webhooks"), "/developers/webhooks", "endpoints.read"),
    (N_("API errors"), "/developers/requests", "requests.read"),
    (N_("Epay"), "/developers/epay", "epay.read"),
    (N_("Settings"), "/settings", "settings.read"),
    (N_("Gateway accounts"), "/settings/gateway-accounts", "gateways.read"),
    (N_("Team"), "/team", "team.read"),
)
_DAYS: Final = 30  # the range of the merchant's volume, today included
# Terms that the page omits without a value, and the term whose value decides.
_OPTIONAL_TERMS: Final = {
    "reserve_rate": "reserve_rate",
    "reserve_days": "reserve_rate",
    "payout_minimum_minor": "payout_minimum_minor",
}
_UNSET: Final = "–"  # the text of a term without a value
_NEWEST: Final = 5  # payments and payouts
_ACCOUNTS: Final = ("available", "pending", "frozen", "reserve", "prepaid")
_RARE_ACCOUNTS: Final = ("prepaid",)  # shown only with money


class VersionChanges(msgspec.Struct, frozen=True):
    """A version of the terms and its changes: text of the term, old value, new value."""

    version: TermsVersion
    changes: list[tuple[str, str, str]]


async def show_merchant(request: PageRequest) -> Response:
    """Show a merchant. Raises NotFound."""
    merchant_id, localizer, now = request.merchant_id, request.localizer, request.now
    first_day = local(now, ZONE).date() - timedelta(days=_DAYS - 1)
    since = day_bounds(first_day, ZONE).since
    async with request.app.db.connection() as tx:
        merchant = await merchants.find(tx, merchant_id)
        balances = await ledger.trial_balance(tx, merchant_id)
        versions = await merchants.history(tx, merchant_id)
        acceptances = await agreement.acceptances(tx, merchant_id)
        members = await people.members(tx, merchant_id)
        invited = await people.invitations(tx, merchant_id, now)
        volumes = await figures.sum_range(tx, merchant_id, since, now + 1)
        account = await payouts.find_account(tx, merchant_id)
        held_since = await payouts.account_held_since(tx, merchant_id)
        newest_payouts = await payouts.list_newest(tx, merchant_id, _NEWEST, 0)
        runs = await payouts.find_runs_of_payouts(tx, newest_payouts)
    newest_payments = list[Order]()
    if request.may("payments.read"):
        newest_payments, _ = await orders.list_page(
            request.app.replica.reading(), merchant_id, OrdersQuery(page=1, size=_NEWEST)
        )
    agreement_status = agreement.status(agreement.current(request.app.settings), acceptances)
    return render.page(
        request,
        "merchant.html",
        merchant=merchant,
        zone=ZONE,
        balances=[(balance.currency, _balance_rows(localizer, balance)) for balance in balances],
        terms=_term_rows(localizer, merchant),
        versions=_versions(localizer, versions, merchant.settlement_currency),
        agreement=agreement_status,
        acceptance=acceptances[0] if acceptances else None,
        members=members,
        invited=invited,
        volumes=[
            (
                localizer.amount(Money(sums.volume_minor, sums.currency)),
                (
                    localizer.amount(Money(sums.direct_minor, sums.currency))
                    if sums.direct_payments
                    else ""
                ),
                localizer.number(sums.all_payments),
                localizer.amount(Money(sums.refunded_minor, sums.currency)),
                (
                    localizer.amount(Money(sums.direct_refunded_minor, sums.currency))
                    if sums.direct_refunds
                    else ""
                ),
                localizer.amount(Money(sums.fees_minor, sums.currency)),
            )
            for sums in volumes
            if sums.has_movements
        ],
        payments=[
            (order, localizer.amount(Money(order.amount_minor, order.currency)))
            for order in newest_payments
        ],
        payouts=[
            (
                payout,
                runs.get((payout.merchant_id, payout.id)),
                localizer.amount(Money(payout.amount_minor, payout.currency)),
            )
            for payout in newest_payouts
        ],
        last_statement=(
            last_statement(request, merchant)
            if request.may("balance.read") and _existed_last_month(request, merchant)
            else ""
        ),
        tasks=list_tasks(
            request,
            merchant,
            members,
            invited,
            account,
            agreement_status,
            newest_payments,
        )
        if request.may("payments.read")
        else [],
        account=account,
        account_state=_account_state(account, held_since, now),
        dashboard_pages=[
            (name, f"{request.base}/dashboard/{merchant_id}{path}")
            for name, path, permission in _DASHBOARD_PAGES
            if request.may(permission)
        ],
    )


def last_statement(request: PageRequest, merchant: Merchant) -> str:
    """Return the address of the merchant's statement of last month."""
    months = lists.months(request, ZoneInfo(merchant.time_zone))
    query = urlencode(months[1].query)
    return f"{request.base}/dashboard/{merchant.id}/balance/statement?{query}"


def _existed_last_month(request: PageRequest, merchant: Merchant) -> bool:
    """Whether a merchant was created before this month of its own calendar."""
    zone = ZoneInfo(merchant.time_zone)
    created = datetime.fromtimestamp(merchant.created_at / 1000, zone)
    today = datetime.fromtimestamp(request.now / 1000, zone)
    return (created.year, created.month) < (today.year, today.month)


def _account_state(account: StoredAccount | None, held_since: int | None, now: int) -> str:
    """Return the key of the text that says whether payouts can go to the account."""
    if account is None:
        return "none"
    if held_since is not None:
        return "held"
    return "waits" if account.usable_from > now else "usable"


def _balance_rows(localizer: Localizer, balance: TrialBalance) -> list[tuple[str, str]]:
    amounts = {
        name: Money(getattr(balance, name), balance.currency)
        for name in _ACCOUNTS
        if name not in _RARE_ACCOUNTS or getattr(balance, name)
    }
    return [(ACCOUNT[name], localizer.amount(amount)) for name, amount in amounts.items()]


def _term_rows(localizer: Localizer, merchant: Merchant) -> list[tuple[str, str]]:
    currency = merchant.settlement_currency
    rows = [
        (TERM[name], _write_term(localizer, name, getattr(merchant, name), currency))
        for name in Terms.__struct_fields__
        if not (name in _OPTIONAL_TERMS and not getattr(merchant, _OPTIONAL_TERMS[name]))
    ]
    return [(name, text) for name, text in rows if text != _UNSET]


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
        return ", ".join(map(terms.fee_text, merchants.read_fees(value))) or _UNSET
    if name.endswith("_rate"):
        return localizer.exact_percent(value)
    if name == "ip_allowlist":
        return ", ".join(value) or _UNSET
    return (
        localizer.gettext(TERM_VALUE[value]) if isinstance(value, str) else localizer.number(value)
    )


pages: Final = (Page("GET", f"{PLACE}/{{merchant:id}}", "merchants.read", show_merchant),)
