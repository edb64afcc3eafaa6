"""What customers enter in the payment form, and what is wrong with it."""

import re
from collections.abc import Mapping
from typing import Final

from opentill.core.errors import Invalid
from opentill.http import inputs
from opentill.pages.model import Entries, Payment

_MAX_NAME: Final = 200
_UNPRINTABLE: Final = re.compile("[\u0000-\u001f\u007f-\u009f\ud800-\udfff]")


def entries(form: Mapping[str, str]) -> Entries:
    """Take the customer's entries out of a form, trimmed."""
    return Entries(*(form.get(name, "").strip() for name in ("email", "name", "method")))


def errors(typed: Entries, payment: Payment) -> dict[str, str]:
    """Check entries: field → key of the sentence that says what would be accepted."""
    found: dict[str, str] = {}
    if typed.email or not payment.email_optional:
        try:
            inputs.check_email("email", typed.email)
        except Invalid:
            found["email"] = "error_email"
    if len(typed.name) > _MAX_NAME or _UNPRINTABLE.search(typed.name):
        found["name"] = "error_name"
    if typed.method not in payment.methods:
        found["method"] = "error_method"
    return found
