"""Forms that make something: sent twice, they make it once.

Such a form carries a random id in a hidden field. In the transaction that makes the thing, the id
is claimed as an idempotency key, and kept with what was made: a double click, the back button and a
repeated request all lead to that (decision 0070).
"""

import re
import secrets
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from opentill.core.ids import is_id
from opentill.dashboard.request import PageRequest
from opentill.db.database import Tx
from opentill.http import idempotency

FIELD: Final = "form_id"  # `templates/parts.html` has the field
_SHAPE: Final = re.compile(r"[0-9a-f]{32}", re.ASCII)
_MADE: Final = 303


def new_form_id() -> str:
    """Make the id of a form that is about to be shown."""
    return secrets.token_hex(16)


async def make(request: PageRequest, work: Callable[[Tx], Awaitable[str]]) -> str:
    """Run ``work``, which makes something and returns its id, unless this form made it already.

    A form without an id makes something each time. Raises KeyReused for a form that has made
    something and comes with other entries now, Conflict while its first request still runs, and
    what ``work`` raises: then nothing is kept, and the form can be sent again.
    """
    form = dict(await request.form())
    form_id = form.pop(FIELD, "")
    if _SHAPE.fullmatch(form_id) is None:
        return await request.app.db.run(work)
    key = f"form {form_id}"
    sent = msgspec.json.encode([request.login.person_id, sorted(form.items())])
    digest = idempotency.fingerprint("POST", request.path, sent)

    async def once(tx: Tx) -> str:
        stored = await idempotency.claim(tx, request.merchant_id, key, digest, request.now)
        if stored is not None:
            return stored.body.decode()
        made = await work(tx)
        if not is_id(made):
            raise AssertionError  # it is to be part of an address
        await idempotency.store(tx, request.merchant_id, key, _MADE, made.encode())
        return made

    return await request.app.db.run(once)
