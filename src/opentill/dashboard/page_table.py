"""The table of all pages of a merchant's dashboard, and their routes."""

from pathlib import Path
from typing import Final

from opentill.dashboard import (
    agreement,
    balance,
    bank_account,
    catalog_files,
    checkout_preview,
    customers,
    developers,
    disputes,
    disputes_list,
    epay,
    events,
    gateway_accounts,
    home,
    keys,
    labels,
    links,
    mail,
    mail_kinds,
    mail_times,
    mails,
    menu_counts,
    payment,
    payment_receipt,
    payments_list,
    payouts,
    prepaid,
    products,
    requests,
    search,
    sessions,
    settings,
    settings_labels,
    statement,
    statement_pdf,
    team,
    webhook,
    webhooks,
)
from opentill.portal import endpoint, gateway_labels
from opentill.portal.model import DASHBOARD_PATH, Creation, Page
from opentill.portal.portal import Portal
from opentill.portal.request import PageRequest
from opentill.web.translations import N_

# Each group of the menu (portal/menu.py) lists its pages in this order.
PAGES: Final[tuple[Page[PageRequest], ...]] = (
    *home.pages,
    *search.pages,
    *payments_list.pages,
    *payment.pages,
    *payment_receipt.pages,
    *disputes_list.pages,
    *disputes.pages,
    *sessions.pages,
    *customers.pages,
    *products.pages,
    *links.pages,
    *balance.pages,
    *prepaid.pages,
    *statement.pages,
    *statement_pdf.pages,
    *payouts.pages,
    *bank_account.pages,
    *developers.pages,
    *keys.pages,
    *webhooks.pages,
    *webhook.pages,
    *events.pages,
    *requests.pages,
    *epay.pages,
    *settings.pages,
    *catalog_files.pages,
    *gateway_accounts.pages,
    *checkout_preview.pages,
    *team.pages,
    *mail_kinds.pages,
    *mails.pages,
    *mail.pages,
    *agreement.pages,
)

# The menu "Create" in the header: what a merchant's people create most often.
CREATIONS: Final = (
    Creation(N_("Payment link"), "/links?sheet=add", "sessions.write"),
    Creation(N_("Checkout session"), "/sessions?sheet=new-session", "sessions.write"),
    Creation(N_("Product"), "/products?sheet=add", "products.write"),
    Creation(N_("Invite a member"), "/team?sheet=invite", "team.manage"),
    Creation(N_("API key"), "/developers/keys?sheet=create", "keys.manage"),
    Creation(N_("Webhook endpoint"), "/developers/webhooks?sheet=add", "endpoints.manage"),
)
PORTAL: Final = Portal(
    PAGES,
    DASHBOARD_PATH,
    Path(__file__).parent / "templates",
    (labels, gateway_labels, mail_times, settings_labels),
    menu_counts.count_waiting,
    CREATIONS,
)
routes: Final = endpoint.routes(PORTAL, "/dashboard")
