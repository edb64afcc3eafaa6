"""The table of what each role may do, from the permissions that the program checks."""

from collections.abc import Mapping
from typing import Final

from opentill.people import MERCHANT_ROLES, MerchantRole, Permission, member_may
from opentill.web.translations import N_, NC_

# Group → its permissions with their names.
PERMISSIONS: Final[Mapping[str, Mapping[Permission, str]]] = {
    NC_("menu", "Payments"): {
        "home.read": N_("See the home page"),
        "payments.read": N_("See payments"),
        "payments.refund": N_("Refund payments"),
        "payments.note": N_("Add notes to payments"),
        "payments.export": N_("Download payments"),
        "sessions.write": N_("Create checkout sessions and payment links"),
        "customers.read": N_("See customers"),
        "disputes.read": N_("See disputes"),
        "disputes.respond": N_("Respond to disputes"),
        "products.read": N_("See products"),
        "products.write": N_("Add and change products"),
    },
    NC_("menu", "Money"): {
        "balance.read": N_("See the balance and statements"),
        "balance.prepay": N_("Move available money to the prepaid balance"),
        "payouts.read": N_("See payouts"),
        "payouts.account": N_("Change the bank account for payouts"),
    },
    N_("Developers"): {
        "keys.read": N_("See API keys"),
        "keys.manage": N_("Create, change or delete an API key"),
        "endpoints.read": N_("See webhook endpoints"),
        "endpoints.manage": N_("Add, change or delete a webhook endpoint"),
        "endpoints.secrets": N_("Show or replace the secret of a webhook endpoint"),
        "events.read": N_("See events"),
        "events.resend": N_("Send events again"),
        "events.test": N_("Send test events"),
        "requests.read": N_("See API errors"),
        "epay.read": N_("See Epay credentials"),
        "epay.manage": N_("Enable, disable or replace Epay credentials"),
    },
    N_("Settings"): {
        "settings.read": N_("See settings"),
        "settings.manage": N_("Change settings"),
        "gateways.read": N_("See your own gateway accounts"),
        "gateways.manage": N_("Add and change your own gateway accounts"),
        "team.read": N_("See the team"),
        "team.manage": N_("Invite, change and remove members"),
        "mails.read": N_("See emails"),
        "mails.resend": N_("Send emails again"),
        "agreement.read": N_("See the agreement"),
        "agreement.accept": N_("Accept the agreement"),
    },
}
Row = tuple[str, frozenset[MerchantRole]]


def rows() -> list[tuple[str, list[Row]]]:
    """Return the groups of permissions: each permission's name and the roles that have it."""
    return [
        (
            group,
            [
                (name, frozenset(role for role in MERCHANT_ROLES if member_may(role, permission)))
                for permission, name in names.items()
            ],
        )
        for group, names in PERMISSIONS.items()
    ]
