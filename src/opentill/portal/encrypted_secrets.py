"""Secrets of a form that is shown again, in a hidden field that only the server can read.

Whoever corrects one field need not enter the others again. The field is encrypted for the person
and the form, and is void after ten minutes.
"""

import base64
import binascii
from collections.abc import Mapping
from typing import Final

import msgspec

from opentill.core import encryption
from opentill.portal.model import SECRET_PREFIX
from opentill.portal.request import PageRequest

FIELD: Final = f"{SECRET_PREFIX}encrypted"
_VALID_MS: Final = 600_000


class _Content(msgspec.Struct, frozen=True):
    until: int  # Unix ms
    secrets: dict[str, str]


def encrypt(request: PageRequest, form: Mapping[str, str], purpose: str, wrong: str = "") -> str:
    """Return the secrets of a form except the ``wrong`` one as text for the hidden field."""
    secrets = {
        name: text
        for name, text in form.items()
        if name.startswith(SECRET_PREFIX) and text and name not in (FIELD, wrong)
    }
    if not secrets:
        return ""
    text = msgspec.json.encode(_Content(request.now + _VALID_MS, secrets)).decode()
    key = request.app.settings.secret_key
    return base64.b64encode(encryption.encrypt(key, _use(request, purpose), text)).decode()


def read(request: PageRequest, hidden_text: str, purpose: str) -> dict[str, str]:
    """Return the secrets of the hidden field; none if it is void or somebody else's."""
    try:
        ciphertext = base64.b64decode(hidden_text, validate=True)
        key = request.app.settings.secret_key
        text = encryption.decrypt(key, _use(request, purpose), ciphertext)
        content = msgspec.json.decode(text, type=_Content)
    except (binascii.Error, ValueError, encryption.WrongKey):
        return {}
    return content.secrets if content.until > request.now else {}


def restore(request: PageRequest, form: Mapping[str, str], purpose: str) -> dict[str, str]:
    """Return a form whose empty secret fields have the values of the hidden field."""
    secrets = read(request, form.get(FIELD, ""), purpose)
    return {
        **form,
        **{name: text for name, text in secrets.items() if not form.get(name, "").strip()},
    }


def _use(request: PageRequest, purpose: str) -> str:
    return f"form {purpose} of {request.login.person_id}"
