"""Forms that make something: sent twice, they make it once.

Such a form carries a random id in a hidden field. In the transaction that makes the thing, the id
is claimed as an idempotency key, and kept with what was made: a double click, the back button and a
repeated request all lead to that (decision 0070).

What is shown once, such as a new key, is kept encrypted, and shown again to whoever sends that very
form again, as the API does under an Idempotency-Key, for seven days (``create_secret``).
"""

import re
import secrets
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import msgspec

from opentill.core import encryption
from opentill.core.ids import is_id
from opentill.db.database import Tx
from opentill.http import idempotency
from opentill.portal.request import PageRequest

S = TypeVar("S", bound=msgspec.Struct)
FIELD: Final = "form_id"  # `templates/parts.html` has the field
_SHAPE: Final = re.compile(r"[0-9a-f]{32}", re.ASCII)
_MADE: Final = 303
_SHOWN: Final = 200


def new_form_id() -> str:
    """Make the id of a form that is about to be shown."""
    return secrets.token_hex(16)


async def run_once(request: PageRequest, work: Callable[[Tx], Awaitable[str]]) -> str:
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


async def create_secret(
    request: PageRequest, work: Callable[[Tx], Awaitable[S]], made: type[S]
) -> S:
    """Run ``work``, which makes a secret, unless this very form made it already: then return that.

    ``made`` is what it returns. A form without an id, or with other entries than before, makes
    something each time. Raises Conflict while its first request still runs, and what ``work``
    raises: then nothing is kept, and the form can be sent again.
    """
    form = await request.form()
    if _SHAPE.fullmatch(form.get(FIELD, "")) is None:
        return await request.app.db.run(work)
    sent = msgspec.json.encode([request.login.person_id, sorted(form.items())])
    digest = idempotency.fingerprint("POST", request.path, sent)
    key = f"form {digest.hex()}"
    key_and_use = request.app.settings.secret_key, f"{key} of {request.merchant_id}"

    async def once(tx: Tx) -> S:
        stored = await idempotency.claim(tx, request.merchant_id, key, digest, request.now)
        if stored is not None:
            return msgspec.json.decode(encryption.decrypt(*key_and_use, stored.body), type=made)
        new = await work(tx)
        kept = encryption.encrypt(*key_and_use, msgspec.json.encode(new).decode())
        await idempotency.store(tx, request.merchant_id, key, _SHOWN, kept)
        return new

    return await request.app.db.run(once)
