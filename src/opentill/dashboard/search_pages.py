"""Pages that the search of a merchant finds: those of the menu, forms that create, and filters.

A page is found by a word of its title, and by words for what one does there: "logo" leads to the
branding, "invite" to the form that invites a member.
"""

from typing import Final
from urllib.parse import urlencode

import msgspec

from opentill.dashboard import payments_tabs
from opentill.orders import ShownStatus
from opentill.people import Permission
from opentill.portal import menu
from opentill.portal.labels import SHOWN_STATUS
from opentill.portal.request import PageRequest
from opentill.portal.search import Hit
from opentill.web.translations import N_, NC_

_LEAST_OF_STATUS: Final = 3  # characters of a text that finds payments by status

# What one does on pages of the menu, by their paths below the merchant's: commas separate texts.
_WORDS: Final = {
    "/payments": N_("sales, orders, export, CSV, receipts, unpaid"),
    "/sessions": N_("unpaid, payment page, checkout URL"),
    "/disputes": N_("chargebacks, evidence"),
    "/products": N_("prices"),
    "/links": N_("QR code"),
    "/balance": N_("reserve, on hold, available, movements"),
    "/balance/statement": N_("report, export, month, PDF"),
    "/payouts": N_("bank, transfers"),
    "/developers/keys": N_("secret key, tokens"),
    "/developers/webhooks": N_("endpoints, notifications, signing secret"),
    "/settings": N_("legal name, address, tax number, receipt, time zone"),
    "/team": N_("members, colleagues, roles, permissions"),
    "/mails": N_("receipts, notifications"),
}
# What one creates by the forms of the menu "Create", by the ends of their addresses.
_CREATES: Final = N_("create, new, add, invite")


class _Subpage(msgspec.Struct, frozen=True):
    """A page without a link of the menu: its title, words, path below the merchant's."""

    title: str
    words: str
    below: str
    permission: Permission


_SUBPAGES: Final = (
    _Subpage(N_("Branding"), N_("logo, color, look"), "/settings/branding", "settings.read"),
    _Subpage(N_("Bank account"), N_("IBAN, account number"), "/payouts/account", "payouts.read"),
    _Subpage(N_("Dispute rate"), N_("chargeback rate"), "/disputes/rate", "disputes.read"),
)


def find_pages(request: PageRequest, text: str) -> list[Hit]:
    """Return pages by a word of their titles or of what one does there, then lists by status."""
    hits = dict[str, Hit]()

    def add(href: str, title: str, *names: str) -> None:
        if any(name and _begins_word(request, name, text) for name in (title, *names)):
            hits.setdefault(href, Hit(href=href, title=request.localizer.gettext(title)))

    start = request.link().rstrip("/")
    for section in menu.sections(request):
        for item in (section.link, *section.items):
            add(item.href, item.name, _WORDS.get(item.href.removeprefix(start), ""))
    for page in _SUBPAGES:
        if request.access.may(page.permission):
            add(f"{start}{page.below}", page.title, page.words)
    for creation in menu.creations(request):
        add(creation.href, creation.name, _CREATES)
    # Suggestions show the first few, and a title says more than the words do.
    pages = sorted(hits.values(), key=lambda hit: not _begins_word(request, hit.title, text))
    return [*pages, *_find_statuses(request, text)]


def _find_statuses(request: PageRequest, text: str) -> list[Hit]:
    """Return the lists of payments by status; the one of failed refunds, which need work, first."""
    if len(text) < _LEAST_OF_STATUS or not request.access.may("payments.read"):
        return []
    payments = request.localizer.gettext(NC_("menu", "Payments"))
    statuses: list[ShownStatus] = [
        status for status, name in SHOWN_STATUS.items() if _begins_word(request, name, text)
    ]
    statuses.sort(key=lambda status: status != "REFUND_FAILED")
    return [
        Hit(
            href=f"{request.link('payments')}?{urlencode(payments_tabs.query_of(status))}",
            title=f"{payments}: {request.localizer.gettext(SHOWN_STATUS[status])}",
        )
        for status in statuses
    ]


def _begins_word(request: PageRequest, name: str, text: str) -> bool:
    """Return whether a word of a name, in English or the person's language, begins with a text."""
    typed, translated = text.casefold(), request.localizer.gettext(name).casefold()
    english = name.rpartition("\x04")[2].casefold()
    if f" {typed}" in f" {translated}" or f" {typed}" in f" {english}":
        return True
    return not translated.isascii() and typed in translated  # no spaces between Chinese words
