"""Forms that make a secret, which is shown in the response and never again.

Such a form carries a random id in a hidden field. In the transaction that makes the secret, the id
is claimed as an idempotency key and keeps, encrypted, what was made: a double click and a repeated
request show the same secret again instead of making another. As a response of the API with the same
key, this ends after seven days.
"""

import re
import secrets
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import msgspec

from opentill.core import encryption
from opentill.dashboard.request import PageRequest
from opentill.db.database import Tx
from opentill.http import idempotency

S = TypeVar("S", bound=msgspec.Struct)
FIELD: Final = "form_id"
_SHAPE: Final = re.compile(r"[0-9a-f]{32}", re.ASCII)
_OF_PROOF: Final = "proof_"
_MADE: Final = 200


def new_form_id() -> str:
    """Make the id of a form that is about to be shown."""
    return secrets.token_hex(16)


async def make(request: PageRequest, work: Callable[[Tx], Awaitable[S]], made: type[S]) -> S:
    """Run ``work``, which makes a secret, unless this very form made it already: then return that.

    ``made`` is what it returns. A form without an id, or with other entries than before, makes
    something each time. Raises what ``work`` raises, and then nothing is kept, and Conflict while
    the first request still runs.
    """
    form = await request.form()
    form_id = form.get(FIELD, "")
    if _SHAPE.fullmatch(form_id) is None:
        return await request.app.db.run(work)
    entries = sorted(one for one in form.items() if not one[0].startswith(_OF_PROOF))
    sent = msgspec.json.encode([request.login.person_id, entries])
    digest = idempotency.fingerprint("POST", request.path, sent)
    key = f"form {digest.hex()}"
    key_and_use = request.app.settings.secret_key, f"{key} of {request.merchant_id}"

    async def once(tx: Tx) -> S:
        stored = await idempotency.claim(tx, request.merchant_id, key, digest, request.now)
        if stored is not None:
            return msgspec.json.decode(encryption.decrypt(*key_and_use, stored.body), type=made)
        new = await work(tx)
        kept = encryption.encrypt(*key_and_use, msgspec.json.encode(new).decode())
        await idempotency.store(tx, request.merchant_id, key, _MADE, kept)
        return new

    return await request.app.db.run(once)
