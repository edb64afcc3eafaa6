"""Applications to become a merchant, which staff decide (decision 0083).

An application creates a merchant with the status APPLIED, which has no capabilities. The response
only confirms the application: it does not disclose whether the email address is known or has
another pending application.
"""

import re
from typing import Final

import msgspec

from opentill.core import money
from opentill.core.errors import Invalid, TooManyRequests
from opentill.db.database import Tx
from opentill.http import inputs
from opentill.merchants import audit, queries, standing, terms
from opentill.merchants.audit import Actor
from opentill.merchants.model import Application, PendingApplication
from opentill.server.client_address import limit_subject

# If this many applications are pending, the page is probably being flooded, and refuses visitors
# who have one pending.
MOST_WAITING: Final = 1000
MAX_PENDING: Final = 10_000  # if this many applications are pending, the page accepts no more
MAX_PER_DAY: Final = 5  # the page accepts at most this many applications from a visitor in 24 hours
UNDECIDED: Final = "the application has not been decided yet"
LONGEST: Final = {"merchant": 200, "name": 200, "email": 254, "website": 2048, "business": 2000}
_RETRY_S: Final = 3600
_DAY_MS: Final = 24 * 3600 * 1000
# Refused in all fields: control characters, marks of text direction, invisible characters and
# surrogates.
_UNPRINTABLE: Final = re.compile(
    "[\\x00-\\x1f\\x7f-\\x9f\\u200b\\u200e\\u200f\\u2028-\\u202f\\u2066-\\u2069\\ufeff\\ud800-\\udfff]"
)


class ApplicationForm(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of the form about the shop and the applicant."""

    merchant: str
    currency: str
    name: str
    email: str
    website: str
    business: str


def check_form(form: ApplicationForm) -> ApplicationForm:
    """Return a normalized application. Raises Invalid on the first invalid field."""
    if form.currency not in money.EXPONENTS:
        raise Invalid("currency", "currency must be an active ISO 4217 code such as USD")
    website = form.website.strip()
    if website and "{" in website:
        raise Invalid("website", "website must be an address without braces")
    return ApplicationForm(
        merchant=_text("merchant", form.merchant),
        currency=form.currency,
        name=_text("name", form.name),
        email=inputs.check_email("email", form.email).lower(),
        website=(inputs.check_url("website", website) or "") if website else "",
        business=_text("business", form.business, lines=True),
    )


def _text(field: str, text: str, *, lines: bool = False) -> str:
    """Trim a text and refuse characters that could affect adjacent text on staff's pages."""
    plain = "\n".join(text.splitlines()) if lines else text
    if _UNPRINTABLE.search(plain.replace("\n", "") if lines else plain):
        raise Invalid(field, f"{field} must be text without control characters")
    return inputs.check_name(field, plain, LONGEST[field])


async def apply(
    tx: Tx, form: ApplicationForm, now: int, *, address: str = "", actor: Actor | None = None
) -> str:
    """Store an application and return the id of its APPLIED merchant.

    ``actor`` is the operator who enters the application; None: the applicant sends the page's form
    from the IP ``address``. The page stores one pending application per email address: for a
    second one, it returns the first. Raises Invalid, and TooManyRequests if too many are pending or
    came from the visitor.
    """
    form_values = check_form(form)
    visitor = limit_subject(address) if address and actor is None else None
    if actor is None:
        # The audit log's lock makes the counts exact. Limits are checked before the email address
        # is looked up, so that a refusal does not disclose whether the address has applied.
        await audit.lock_log(tx)
        await _check_room(tx, visitor, now)
        pending_id = await queries.APPLIED_BY.get(tx, email=form_values.email)
        if pending_id is not None:
            return pending_id
    applicant = actor or Actor(form_values.email, "applied at /apply")
    draft = terms.draft(form_values.merchant, form_values.currency, now)
    merchant = await standing.create_from_draft(tx, draft, "applied", applicant, now, UNDECIDED)
    application = Application(
        merchant_id=merchant.id,
        name=form_values.name,
        email=form_values.email,
        website=form_values.website,
        business=form_values.business,
        address=address,
        applied_at=now,
        visitor=visitor,
    )
    await queries.INSERT_APPLICATION.run(tx, application)
    return merchant.id


async def _check_room(tx: Tx, visitor: str | None, now: int) -> None:
    """Raise TooManyRequests unless a visitor may send another application."""
    oldest = await queries.APPLIED_FROM.get(
        tx, visitor=visitor, since=now - _DAY_MS, before=MAX_PER_DAY - 1
    )
    if oldest is not None:
        raise TooManyRequests(MAX_PER_DAY, max(1, (oldest + _DAY_MS - now) // 1000))
    number = await queries.COUNT_APPLIED.get(tx) or 0
    if number < MOST_WAITING:
        return
    if (
        number >= MAX_PENDING
        or visitor is None
        or await queries.WAITS_FROM.get(tx, visitor=visitor)
    ):
        raise TooManyRequests(MOST_WAITING, _RETRY_S)


async def waiting(tx: Tx, limit: int = MOST_WAITING) -> list[PendingApplication]:
    """Return the pending applications, oldest first."""
    return await queries.WAITING.all(tx, limit=limit)


async def count_waiting(tx: Tx) -> int:
    """Return the number of pending applications."""
    return await queries.COUNT_APPLIED.get(tx) or 0


async def find(tx: Tx, merchant_id: str) -> Application | None:
    """Return a merchant's application, None if the operator created the merchant."""
    return await queries.APPLICATION.first(tx, merchant_id=merchant_id)
