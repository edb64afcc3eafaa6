"""The page of the deployment's settings in groups, with a search. Secrets are masked."""

from decimal import Decimal
from typing import Final

import msgspec
from starlette.responses import Response

from opentill.core.setting_rows import Setting
from opentill.core.settings import GATEWAY_PREFIX, PREFIX, SETTINGS, Settings
from opentill.gateways.masked_settings import masked_rows, text_of
from opentill.portal import lists, render
from opentill.portal.model import CONSOLE_PATH, Page
from opentill.portal.request import PageRequest
from opentill.web.language import Localizer
from opentill.web.translations import N_

# The groups and the beginnings of the names of their variables, without ``OPENTILL_``. A variable
# belongs to the first group that has a beginning of its name.
GROUPS: Final = (
    (N_("Database"), ("DATABASE_", "DB_", "DATA_DIR", "READ_LAG")),
    (N_("Gateways"), ("GATEWAY", "ROUTES", "SANDBOX")),
    (N_("Webhooks"), ("WEBHOOK_", "OUTGOING_")),
    (N_("Approvals and proofs"), ("APPROVAL_", "REFUND_PROOF_", "FACTOR_", "SECRET_KEY")),
    (N_("Payouts"), ("PAYOUT_", "BANK_ACCOUNT_")),
    (N_("Email and receipts"), ("SMTP_", "MAIL_", "RECEIPT_")),
    (N_("Operator and agreement"), ("OPERATOR_", "AGREEMENT_", "APPLICATIONS")),
    (N_("Exchange rates and Epay"), ("RATES_", "EPAY_")),
    (
        N_("Limits and timeouts"),
        ("LIMIT_", "CONNECTION_LIMIT", "REQUEST_", "IDLE_", "HEADER_TIMEOUT", "BODY_", "DRAIN_"),
    ),
    (N_("Monitoring"), ("METRICS_", "LOG_", "HISTORY_")),
    (N_("Server"), ("",)),
)


class Row(msgspec.Struct, frozen=True):
    """A setting as the page shows it. ``value`` is "" if it is not set."""

    variable: str
    name: str
    about: str
    value: str
    is_changed: bool  # whether its value is not the default
    lang: str = ""  # the language of name and explanation, if it is not the reader's


class SettingGroup(msgspec.Struct, frozen=True):
    """A group of settings."""

    title: str
    rows: list[Row]

    @property
    def changed(self) -> int:
        """The number of settings that do not have their default value."""
        return sum(row.is_changed for row in self.rows)


def group_of(variable: str) -> str:
    """Return the title of a variable's group."""
    name = variable.removeprefix(PREFIX)
    return next(title for title, starts in GROUPS if name.startswith(starts))


def _write_value(localizer: Localizer, setting: Setting, value: object) -> str:
    """Write a value in the reader's language; "" if it is not set."""
    if setting.secret:
        return str(localizer.gettext(N_("Set"))) if value else ""
    if isinstance(value, bool):
        return str(localizer.gettext(N_("On") if value else N_("Off")))
    if isinstance(value, (int, float, Decimal)):
        return _write_number(localizer, setting, value)
    text = text_of(value)
    return text.replace(",", ", ") if isinstance(value, tuple) else text


def _write_number(localizer: Localizer, setting: Setting, value: float | Decimal) -> str:
    """Write a number with its unit, which the end of the field's name says."""
    field = setting.field
    text = localizer.number(int(value)) if value == int(value) else f"{value:f}".rstrip("0")
    if not value and setting.zero:
        text = str(localizer.gettext(setting.zero))
    elif field.endswith("port"):
        text = str(value)
    elif field.endswith("_s"):
        text = localizer.ngettext("{number} second", "{number} seconds", int(value), number=text)
    elif field.endswith("_hours"):
        text = localizer.ngettext("{number} hour", "{number} hours", int(value), number=text)
    elif field.endswith("_days"):
        text = localizer.ngettext("{number} day", "{number} days", int(value), number=text)
    return str(text)


def _rows(localizer: Localizer, settings: Settings) -> list[Row]:
    """Return the settings of the server, and then the options of its gateways."""
    defaults = Settings()
    rows: list[Row] = []
    for setting in SETTINGS:
        value = getattr(settings, setting.field)
        rows.append(
            Row(
                variable=setting.name,
                name=str(localizer.gettext(setting.label)),
                about=str(localizer.gettext(setting.about)),
                value=_write_value(localizer, setting, value),
                is_changed=value != getattr(defaults, setting.field),
            )
        )
    for variable, value, text in masked_rows(settings):
        if variable.startswith(GATEWAY_PREFIX):
            name = variable.removeprefix(GATEWAY_PREFIX).replace("_", " ").capitalize()
            about = text[:1].upper() + text[1:]
            is_secret = value == "(set)"
            shown = str(localizer.gettext(N_("Set"))) if is_secret else value
            rows.append(Row(variable, name, about, shown, bool(value), "en"))
    return rows


async def show_settings(request: PageRequest) -> Response:
    """Show each setting with its value and its explanation, by group; all or those that match."""
    text = lists.text(request, "query")
    only_changed = lists.choice(request, "show", ("changed",)) is not None
    rows = [
        row
        for row in _rows(request.localizer, request.app.settings)
        if text.casefold() in f"{row.name} {row.about} {row.variable}".casefold()
        and (row.is_changed or not only_changed)
    ]
    groups = [
        SettingGroup(title, [row for row in rows if group_of(row.variable) == title])
        for title, _ in GROUPS
    ]
    return render.page(
        request,
        "settings.html",
        groups=[group for group in groups if group.rows],
        text=text,
        is_filtered=bool(text or only_changed),
        show="changed" if only_changed else "",
    )


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
