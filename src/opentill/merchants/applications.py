"""Applications of those who want to become merchants, which staff decide (decision 0083).

An application makes a merchant that is APPLIED: nothing can be done with it. Whoever sends one
learns nothing but that it was taken, whether or not the address is known here, and whether or not
one of theirs waits already.
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
from opentill.merchants.model import Application, Waiting
from opentill.server.client_address import limit_subject

# Beyond it somebody floods the page, and only who has none that waits sends another one.
MOST_WAITING: Final = 1000
MOST_EVER: Final = 10_000  # that wait: beyond it the page takes none
A_DAY: Final = 5  # of an address
UNDECIDED: Final = "the application has not been decided yet"
LONGEST: Final = {"merchant": 200, "name": 200, "email": 254, "website": 2048, "business": 2000}
_RETRY_S: Final = 3600
_DAY_MS: Final = 24 * 3600 * 1000
# Controls, marks that turn the direction of a text, characters that nobody sees, surrogates.
_UNPRINTABLE: Final = re.compile(
    "[\\x00-\\x1f\\x7f-\\x9f\\u200b\\u200e\\u200f\\u2028-\\u202f\\u2066-\\u2069\\ufeff\\ud800-\\udfff]"
)


class ApplicationForm(msgspec.Struct, frozen=True, kw_only=True):
    """What is entered: about the shop, and about who applies, in the form's own names."""

    merchant: str
    currency: str
    name: str
    email: str
    website: str
    business: str


def checked(form: ApplicationForm) -> ApplicationForm:
    """Return an application as it is kept. Raises Invalid on the first field that is wrong."""
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
    """Trim a text; staff read it beside other things, so nothing in it may move those."""
    plain = "\n".join(text.splitlines()) if lines else text
    if _UNPRINTABLE.search(plain.replace("\n", "") if lines else plain):
        raise Invalid(field, f"{field} must be text without control characters")
    return inputs.check_name(field, plain, LONGEST[field])


async def apply(
    tx: Tx, form: ApplicationForm, now: int, *, address: str = "", actor: Actor | None = None
) -> str:
    """Take an application, and return the id of its merchant, which is APPLIED.

    ``actor`` is the operator who enters it; None: the applicant, by the page, from ``address``. The
    page takes one application of an e-mail address at a time: another leads to the first, which
    stays as it is. Raises Invalid, and TooManyRequests where too many wait, or came from there.
    """
    wanted = checked(form)
    visitor = limit_subject(address) if address and actor is None else None
    if actor is None:
        # Applications are taken one after the other, so that what was counted is exact.
        await audit.lock_log(tx)
        await _check_room(tx, visitor, now)  # first: a refusal does not depend on who is known
        before = await queries.APPLIED_BY.get(tx, email=wanted.email)
        if before is not None:
            return before
    by = actor or Actor(wanted.email, "applied on the page for it")
    draft = terms.draft(wanted.merchant, wanted.currency, now)
    made = await standing.make(tx, draft, "applied", by, now, UNDECIDED)
    application = Application(
        merchant_id=made.id,
        name=wanted.name,
        email=wanted.email,
        website=wanted.website,
        business=wanted.business,
        address=address,
        applied_at=now,
        visitor=visitor,
    )
    await queries.INSERT_APPLICATION.run(tx, application)
    return made.id


async def _check_room(tx: Tx, visitor: str | None, now: int) -> None:
    """Check that another application may come from an address. Raises TooManyRequests."""
    oldest = await queries.APPLIED_FROM.get(
        tx, visitor=visitor, since=now - _DAY_MS, before=A_DAY - 1
    )
    if oldest is not None:
        raise TooManyRequests(A_DAY, max(1, (oldest + _DAY_MS - now) // 1000))
    number = await queries.COUNT_APPLIED.get(tx) or 0
    if number < MOST_WAITING:
        return
    if number >= MOST_EVER or visitor is None or await queries.WAITS_FROM.get(tx, visitor=visitor):
        raise TooManyRequests(MOST_WAITING, _RETRY_S)


async def waiting(tx: Tx, limit: int = MOST_WAITING) -> list[Waiting]:
    """Return the applications that wait to be decided, the oldest first."""
    return await queries.WAITING.all(tx, limit=limit)


async def count_waiting(tx: Tx) -> int:
    """Return how many applications wait to be decided."""
    return await queries.COUNT_APPLIED.get(tx) or 0


async def find(tx: Tx, merchant_id: str) -> Application | None:
    """Return the application that a merchant came by, None if the operator made it."""
    return await queries.APPLICATION.first(tx, merchant_id=merchant_id)
