"""The entries of the payment form, and their errors."""

import re
from collections.abc import Mapping
from typing import Final

from opentill.core.errors import Invalid
from opentill.http import inputs
from opentill.pages.model import Entries, Payment
from opentill.web.translations import N_

_MAX_NAME: Final = 200
_UNPRINTABLE: Final = re.compile("[\u0000-\u001f\u007f-\u009f\ud800-\udfff]")


def entries(form: Mapping[str, str]) -> Entries:
    """Read the customer's entries from a form, trimmed."""
    return Entries(*(form.get(name, "").strip() for name in ("email", "name", "method")))


def errors(entries: Entries, payment: Payment) -> dict[str, str]:
    """Check entries.

    Returns, for each wrong field, a text that says which input would be accepted.
    """
    texts: dict[str, str] = {}
    if entries.email or not payment.email_optional:
        try:
            inputs.check_email("email", entries.email)
        except Invalid:
            texts["email"] = N_("Enter an email address such as name@example.com")
    if len(entries.name) > _MAX_NAME or _UNPRINTABLE.search(entries.name):
        texts["name"] = N_("Enter a name of at most 200 characters, or leave it empty")
    if entries.method not in payment.methods:
        texts["method"] = N_("Select a payment method")
    return texts
