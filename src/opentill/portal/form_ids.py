"""Ids of forms, which make them idempotent (decision 0070).

A hidden field has a random id. The transaction that creates something claims the id as an
idempotency key and stores the result under it: a double click, the back button and a repeated
request return that result.
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
from opentill.web.translations import N_

S = TypeVar("S", bound=msgspec.Struct)
# The text that a page shows for a form that ``run_once`` has refused with KeyReused.
FORM_REUSED: Final = N_(
    "This form was already sent with other entries. Send it again to create another one"
)
FIELD: Final = "form_id"  # the name of the hidden field in `templates/parts.html`
_SHAPE: Final = re.compile(r"[0-9a-f]{32}", re.ASCII)
_REDIRECTED: Final = 303
_SHOWN: Final = 200


def new_form_id() -> str:
    """Return an id for a form that is about to be shown."""
    return secrets.token_hex(16)


async def run_once(request: PageRequest, work: Callable[[Tx], Awaitable[str]]) -> str:
    """Run ``work``, which returns the id of an object, once for this form; then return that id.

    A form without an id runs ``work`` each time. Raises KeyReused if this form was sent before with
    other entries, Conflict while its first request still runs, and the exceptions of ``work``;
    after these, nothing is stored and the form can be sent again.
    """
    form = dict(await request.form())
    form_id = form.pop(FIELD, "")
    if _SHAPE.fullmatch(form_id) is None:
        return await request.transact(work)
    key = f"form {form_id}"
    entries = msgspec.json.encode([request.login.person_id, sorted(form.items())])
    digest = idempotency.fingerprint("POST", request.path, entries)

    async def once(tx: Tx) -> str:
        stored = await idempotency.claim(tx, request.merchant_id, key, digest, request.now)
        if stored is not None:
            return stored.body.decode()
        object_id = await work(tx)
        if not is_id(object_id):
            raise AssertionError  # must not happen: callers put the id into URLs
        await idempotency.store(tx, request.merchant_id, key, _REDIRECTED, object_id.encode())
        return object_id

    return await request.transact(once)


async def create_secret(
    request: PageRequest, work: Callable[[Tx], Awaitable[S]], secret_type: type[S]
) -> S:
    """Run ``work``, which creates a secret, once for this form with these entries.

    For seven days the same form returns the same secret, which is stored encrypted, as the API
    does for an Idempotency-Key. A form without an id creates one each time. Raises Conflict while
    its first request still runs, and the exceptions of ``work``; after these, nothing is stored and
    the form can be sent again.
    """
    form = await request.form()
    if _SHAPE.fullmatch(form.get(FIELD, "")) is None:
        return await request.transact(work)
    entries = msgspec.json.encode([request.login.person_id, sorted(form.items())])
    digest = idempotency.fingerprint("POST", request.path, entries)
    key = f"form {digest.hex()}"
    key_and_use = request.app.settings.secret_key, f"{key} of {request.merchant_id}"

    async def once(tx: Tx) -> S:
        stored = await idempotency.claim(tx, request.merchant_id, key, digest, request.now)
        if stored is not None:
            return msgspec.json.decode(
                encryption.decrypt(*key_and_use, stored.body), type=secret_type
            )
        secret = await work(tx)
        encrypted = encryption.encrypt(*key_and_use, msgspec.json.encode(secret).decode())
        await idempotency.store(tx, request.merchant_id, key, _SHOWN, encrypted)
        return secret

    return await request.transact(once)
