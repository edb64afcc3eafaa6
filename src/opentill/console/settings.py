"""The page of the deployment's settings in groups. Secrets are masked."""

from typing import Final

from starlette.responses import Response

from opentill.core.settings import PREFIX
from opentill.gateways.masked_settings import masked_rows
from opentill.portal import render
from opentill.portal.model import CONSOLE_PATH, Page
from opentill.portal.request import PageRequest
from opentill.web.translations import N_

# The groups and the beginnings of the names of their variables, without ``OPENTILL_``. A variable
# belongs to the first group that has a beginning of its name.
GROUPS: Final = (
    (N_("Database"), ("DATABASE_", "DB_", "DATA_DIR")),
    (N_("Gateways"), ("GATEWAY", "ROUTES", "SANDBOX")),
    (N_("Webhooks"), ("WEBHOOK_", "OUTGOING_")),
    (N_("Approvals and proofs"), ("APPROVAL_", "REFUND_PROOF_", "FACTOR_", "SECRET_KEY")),
    (N_("Payouts"), ("PAYOUT_", "BANK_ACCOUNT_")),
    (N_("Mail and receipts"), ("SMTP_", "MAIL_", "RECEIPT_")),
    (N_("Operator and agreement"), ("OPERATOR_", "AGREEMENT_", "APPLICATIONS")),
    (N_("Exchange rates and Epay"), ("RATES_", "EPAY_")),
    (
        N_("Limits and timeouts"),
        ("LIMIT_", "CONNECTION_LIMIT", "REQUEST_", "IDLE_", "HEADER_TIMEOUT", "BODY_", "DRAIN_"),
    ),
    (N_("Monitoring"), ("METRICS_", "LOG_", "HISTORY_")),
    (N_("Server"), ("",)),
)


def group_of(variable: str) -> str:
    """Return the title of a variable's group."""
    name = variable.removeprefix(PREFIX)
    return next(title for title, starts in GROUPS if name.startswith(starts))


async def show_settings(request: PageRequest) -> Response:
    """Show each setting with its value and its description, by group."""
    groups: dict[str, list[tuple[str, str, str]]] = {title: [] for title, _ in GROUPS}
    for row in masked_rows(request.app.settings):
        groups[group_of(row[0])].append(row)
    return render.page(request, "settings.html", groups=groups)


pages: Final = (
    Page(
        "GET",
        f"{CONSOLE_PATH}/settings",
        "deployment.read",
        show_settings,
        menu=N_("Settings"),
        group="system",
    ),
)
