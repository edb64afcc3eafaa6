"""The table of all pages of the console, and their routes.

Each module has rows ``Page(method, path, permission, handler, menu=…)``: the path is below
``/console``, the permission is one of staff (``people/permissions.py``).
"""

from pathlib import Path
from typing import Final

from opentill.console import (
    account_labels,
    account_terms,
    adjustments,
    approvals,
    audit,
    bank_account,
    books,
    deposit_cases,
    dispute,
    disputes,
    environment_account,
    fees,
    gateway_account,
    gateway_accounts,
    gateway_rules,
    gateway_tests,
    gateways,
    home,
    labels,
    mails,
    member_invitation,
    menu_counts,
    merchant,
    merchant_gateways,
    merchant_labels,
    merchants,
    need_labels,
    needs,
    new_gateway_account,
    new_merchant,
    payment,
    payments,
    payments_file,
    payout,
    payout_labels,
    payout_runs,
    payouts,
    people,
    provider_reports,
    queues,
    rates,
    reconciliation,
    search,
    settings,
    standing,
    terms,
    trial_balance,
)
from opentill.people import command_permission
from opentill.portal import endpoint, gateway_labels
from opentill.portal.model import CONSOLE_PATH, Creation, Page
from opentill.portal.portal import Portal
from opentill.portal.request import PageRequest
from opentill.web.translations import N_

# Each group of the menu (portal/menu.py) lists its pages in this order.
PAGES: Final[tuple[Page[PageRequest], ...]] = (
    *home.pages,
    *search.pages,
    *needs.pages,
    *deposit_cases.pages,
    *provider_reports.pages,
    *payments.pages,
    *payments_file.pages,
    *payment.pages,
    *disputes.pages,
    *dispute.pages,
    *merchants.pages,
    *new_merchant.pages,
    *member_invitation.pages,
    *merchant.pages,
    *standing.pages,
    *terms.pages,
    *adjustments.pages,
    *bank_account.pages,
    *merchant_gateways.pages,
    *payout_runs.pages,
    *reconciliation.pages,
    *approvals.pages,
    *payouts.pages,
    *payout.pages,
    *fees.pages,
    *trial_balance.pages,
    *books.pages,
    *people.pages,
    *audit.pages,
    *gateway_accounts.pages,
    *new_gateway_account.pages,
    *environment_account.pages,
    *gateway_account.pages,
    *account_terms.pages,
    *gateways.pages,
    *gateway_tests.pages,
    *gateway_rules.pages,
    *mails.pages,
    *queues.pages,
    *rates.pages,
    *settings.pages,
)

# The menu "Create" in the header: forms of pages that the menu beside the page reaches later.
CREATIONS: Final = (
    Creation(N_("Merchant"), "/merchants/new", command_permission("merchants create")),
    Creation(N_("Payout run"), "/payout-runs?sheet=begin", "payouts.manage"),
    Creation(N_("Upload a bank report"), "/payout-runs?sheet=bank", "payouts.manage"),
    Creation(N_("Compare a settlement report"), "/reconciliation?sheet=compare", "balance.adjust"),
    Creation(N_("Routing rule"), "/routing-rules?sheet=add", "deployment.manage"),
    Creation(N_("Exchange rate"), "/rates?sheet=set", "rates.manage"),
    Creation(N_("Invite a colleague"), "/people?sheet=invite", "people.manage"),
)
PORTAL: Final = Portal(
    PAGES,
    CONSOLE_PATH,
    Path(__file__).parent / "templates",
    (labels, gateway_labels, account_labels, merchant_labels, need_labels, payout_labels),
    menu_counts.count_waiting,
    CREATIONS,
)
routes: Final = endpoint.routes(PORTAL, CONSOLE_PATH)
