"""What customers enter in the payment form, and what is wrong with it."""

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
    """Take the customer's entries out of a form, trimmed."""
    return Entries(*(form.get(name, "").strip() for name in ("email", "name", "method")))


def errors(typed: Entries, payment: Payment) -> dict[str, str]:
    """Check entries: field → the text that says what would be accepted."""
    found: dict[str, str] = {}
    if typed.email or not payment.email_optional:
        try:
            inputs.check_email("email", typed.email)
        except Invalid:
            found["email"] = N_("Enter an e-mail address such as name@example.com")
    if len(typed.name) > _MAX_NAME or _UNPRINTABLE.search(typed.name):
        found["name"] = N_("Enter a name of at most 200 characters, or leave it empty")
    if typed.method not in payment.methods:
        found["method"] = N_("Choose one of the payment methods")
    return found
