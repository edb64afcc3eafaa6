"""Forms that make or send something: done once, however often they are sent.

Such a form has a random id in a hidden field. It is kept as an Idempotency-Key is, in the
transaction of what the form does: a second click, the back button and a second tab lead to where
the first one led.
"""

import re
import secrets
from collections.abc import Awaitable, Callable
from typing import Final
from urllib.parse import urlencode

from opentill.core.errors import Invalid
from opentill.dashboard.request import PageRequest
from opentill.db.database import Tx
from opentill.http import idempotency

FIELD: Final = "form"
_ID: Final = re.compile(r"[A-Za-z0-9_-]{16,64}", re.ASCII)
_SEE_OTHER: Final = 303
_PROOF: Final = "proof_"  # fields of a step-up, which come along with one of two


def new_id() -> str:
    """Make the id of a form."""
    return secrets.token_urlsafe(16)


async def do(request: PageRequest, work: Callable[[Tx], Awaitable[str]]) -> str:
    """Do what the form says in a transaction, and return the path that it leads to.

    Sent again, it does nothing, and returns that of the first time. Raises KeyReused if its id came
    with something else, Invalid if it has none, and whatever ``work`` raises.
    """
    form = await request.form()
    form_id = form.get(FIELD, "")
    if _ID.fullmatch(form_id) is None:
        raise Invalid(FIELD, f"{FIELD} must be the id that the page has given the form")
    typed = sorted(pair for pair in form.items() if not pair[0].startswith(_PROOF))
    place = f"{request.path} {request.login.person_id}"
    digest = idempotency.fingerprint("POST", place, urlencode(typed).encode())
    key, merchant_id = f"form {form_id}", request.merchant_id

    async def once(tx: Tx) -> str:
        stored = await idempotency.claim(tx, merchant_id, key, digest, request.now)
        if stored is not None:
            return stored.body.decode()
        path = await work(tx)
        await idempotency.store(tx, merchant_id, key, _SEE_OTHER, path.encode())
        return path

    return await request.app.db.run(once)
