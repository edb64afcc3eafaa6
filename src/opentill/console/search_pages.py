"""Pages that the search of the console finds: those of the menu, of merchants and of accounts.

A page is found by a word of its title and by words for what one does there: "bank file" leads to
the payout runs, "suspend Demo" to the form that suspends a merchant of that name.
"""

from collections.abc import Sequence
from typing import Final
from urllib.parse import urlencode

import msgspec

from opentill import merchants
from opentill.console.gateway_accounts import ENVIRONMENT, environment_names, environment_state
from opentill.console.gateway_accounts import PLACE as ACCOUNTS
from opentill.console.merchant import last_statement
from opentill.db.database import Tx
from opentill.gateways import accounts
from opentill.merchants import Merchant
from opentill.people import Permission
from opentill.portal import menu
from opentill.portal.account_views import state_of
from opentill.portal.gateway_labels import (
    GATEWAY_ACCOUNT_BADGE,
    GATEWAY_ACCOUNT_STATE,
    GATEWAY_TITLE,
)
from opentill.portal.model import CONSOLE_PATH
from opentill.portal.request import PageRequest
from opentill.portal.search import SHOWN, Group, Hit
from opentill.web.translations import N_

_PREFIX: Final = 5  # letters of a word after which the rest of it need not be typed

# What one does on pages of the menu, by their paths below the console's: commas separate texts.
_WORDS: Final = {
    "/approvals": N_("second person, four eyes"),
    "/audit": N_("history, who did what, verify"),
    "/books": N_("integrity, books"),
    "/disputes": N_("chargebacks, evidence"),
    "/fees": N_("revenue, earned, income"),
    "/gateway-accounts": N_(
        "Stripe, PayPal, Alipay, WeChat Pay, pause, resume, retire, credentials, API key, limits, "
        "costs, add an account"
    ),
    "/gateways": N_("success rate, declines, response time, volume"),
    "/mails": N_("mail server, templates"),
    "/merchants": N_("shops, sellers, new merchant"),
    "/payout-runs": N_(
        "bank file, pain.001, bank report, bank statement, start payouts, due payouts, XML"
    ),
    "/payouts": N_("transfers, returned payouts"),
    "/people": N_("staff, colleagues, invite, roles, second factor, lost phone"),
    "/queues": N_("jobs, late, delays"),
    "/rates": N_("currencies, conversion, set a rate"),
    "/reconciliation": N_("settlement report, differences, fetch a report"),
    "/routing-rules": N_("explain, failover, order of the accounts"),
    "/settings": N_("configuration, environment variables"),
    "/trial-balance": N_("general ledger, accounts, export"),
}


class _MerchantPage(msgspec.Struct, frozen=True):
    """A page of a merchant that is found by words and a part of the merchant's name."""

    title: str
    words: str  # the words that lead to it; commas separate them
    below: str  # its path below the merchant's in the console; "" for last month's statement
    permission: Permission
    by_name: bool = False  # whether the name of a single merchant suffices


_MERCHANT_PAGES: Final = (
    _MerchantPage(N_("Last month’s statement"), N_("Statement"), "", "balance.read"),
    _MerchantPage(
        N_("Status and restrictions"),
        N_("Status, stop, restrictions"),
        "/standing",
        "merchants.read",
        by_name=True,
    ),
    _MerchantPage(
        N_("Suspend"), N_("Suspend, block"), "/standing?sheet=suspended", "merchants.manage"
    ),
    _MerchantPage(
        N_("Close for good"), N_("Close, delete"), "/standing?sheet=closed", "merchants.manage"
    ),
    _MerchantPage(
        N_("Terms"), N_("Terms, fees, reserve, delay"), "/terms", "merchants.read", by_name=True
    ),
    _MerchantPage(
        N_("Adjust the balance"),
        N_("Adjust, adjustment, correct, recharge, hold, release"),
        "/adjustments",
        "balance.read",
        by_name=True,
    ),
    _MerchantPage(N_("Bank account"), N_("Bank, IBAN, account"), "/bank-account", "payouts.read"),
    _MerchantPage(N_("Invite a member"), N_("Invite, member, owner"), "/members", "people.manage"),
)
# What one does with a stored account: title, words, what follows the address of its page.
_ACCOUNT_PAGES: Final = (
    (N_("Pause the account"), N_("Pause, stop"), "?sheet=pause"),
    (N_("Retire the account"), N_("Retire, remove, delete"), "?sheet=retire"),
    (N_("Replace the credentials"), N_("Credentials, key, replace"), "/credentials"),
    (N_("Edit the terms"), N_("Limits, costs, priority, weight, terms"), "/terms"),
)


def find_pages(request: PageRequest, text: str) -> list[Hit]:
    """Return the pages of the menu by a word of their titles, or of what one does there."""
    hits = dict[str, Hit]()
    start = f"{request.base}{CONSOLE_PATH}"
    for section in menu.sections(request):
        for item in (section.link, *section.items):
            words = _WORDS.get(item.href.removeprefix(start), "")
            if _begins_word(request, item.name, text) or (
                words and _begins_word(request, words, text)
            ):
                hit = Hit(href=item.href, title=request.localizer.gettext(item.name))
                hits.setdefault(item.href, hit)
    return list(hits.values())


def _begins_word(request: PageRequest, name: str, text: str) -> bool:
    """Whether a text begins at a word of a name, in English or the person's language."""
    typed, translated = text.casefold(), request.localizer.gettext(name).casefold()
    english = name.rpartition("\x04")[2].casefold()
    if f" {typed}" in f" {translated}" or f" {typed}" in f" {english}":
        return True
    return not translated.isascii() and typed in translated  # no spaces between Chinese words


async def find_pages_of_merchants(tx: Tx, request: PageRequest, text: str) -> list[Hit]:
    """Return pages of merchants, by words for what one does there and a part of their names."""
    hits = list[Hit]()
    matches: list[Merchant] = []
    for page in _MERCHANT_PAGES:
        if not request.may(page.permission):
            continue
        others = _without_words(request, page.words, text)
        if others is not None:
            named, _ = await merchants.search(tx, others, 1, SHOWN)
            hits += [_merchant_hit(request, page, merchant) for merchant in named]
    if not hits and request.may("merchants.read"):
        matches, total = await merchants.search(tx, text, 1, 1)
        if total == 1:
            hits = [
                _merchant_hit(request, page, matches[0])
                for page in _MERCHANT_PAGES
                if page.by_name and request.may(page.permission)
            ]
    return hits


def _merchant_hit(request: PageRequest, page: _MerchantPage, merchant: Merchant) -> Hit:
    place = request.console("merchants", merchant.id)
    href = f"{place}{page.below}" if page.below else last_statement(request, merchant)
    return Hit(href=href, title=request.localizer.gettext(page.title), details=[merchant.name])


def _without_words(request: PageRequest, words: str, text: str) -> str | None:
    """Return a text without the words that lead to a page, None if it has none of them."""
    names = [
        name.strip()
        for listed in (words, request.localizer.gettext(words))
        for name in listed.casefold().replace("，", ",").replace("、", ",").split(",")
    ]
    typed = text.split()
    others = [word for word in typed if not _names_page(word.casefold(), names)]
    return None if len(others) == len(typed) else " ".join(others)


def _names_page(word: str, names: Sequence[str]) -> bool:
    """Whether somebody types a name of a page: its beginning, or its plural."""
    return any(
        word in {name, f"{name}s"} or (len(word) >= _PREFIX and name.startswith(word))
        for name in names
    )


async def find_accounts(tx: Tx, request: PageRequest, text: str) -> Group:
    """Return gateway accounts by label, gateway or id, and what one does with them."""
    hits = [
        Hit(
            href=f"{request.base}{ENVIRONMENT}?{urlencode({'gateway': name})}",
            title=request.account_name(name),
            details=[request.localizer.gettext(N_("From the settings"))],
            status=GATEWAY_ACCOUNT_STATE[state],
            kind=GATEWAY_ACCOUNT_BADGE[state],
        )
        for name in environment_names(request)
        if _has_text(text, name, request.account_name(name))
        for state in (environment_state(request, name),)
    ]
    listed = await accounts.list_accounts(tx)
    for account in listed:
        titles = (account.label, account.id, account.gateway)
        gateway = request.localizer.gettext(GATEWAY_TITLE.get(account.gateway, account.gateway))
        place = f"{request.base}{ACCOUNTS}/{account.id}"
        if _has_text(text, gateway, *titles):
            state = state_of(account, request.app.gateways)
            hits.append(
                Hit(
                    href=place,
                    title=account.label,
                    details=[gateway],
                    status=GATEWAY_ACCOUNT_STATE[state],
                    kind=GATEWAY_ACCOUNT_BADGE[state],
                )
            )
        elif request.may("deployment.manage") and account.status != "RETIRED":
            hits += [
                Hit(
                    href=f"{place}{below}",
                    title=request.localizer.gettext(title),
                    details=[account.label],
                )
                for title, words, below in _ACCOUNT_PAGES
                if (others := _without_words(request, words, text))
                and _has_text(others, gateway, *titles)
            ]
    return Group(
        id="accounts",
        hits=hits[:SHOWN],
        href=f"{request.base}{ACCOUNTS}",
        total=len(hits),
    )


def _has_text(text: str, *names: str) -> bool:
    folded = text.casefold()
    return any(folded in name.casefold() for name in names)
