"""A passkey in software, which creates and signs the responses of a browser to pages."""

import base64
import hashlib
import html
import json
import re
import secrets
from typing import Any, Final
from urllib.parse import urlsplit

import cbor2
import httpx2
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256

from support.people import Visitor

_PRESENT: Final = 0x01
_VERIFIED: Final = 0x04
_ATTESTED: Final = 0x40


def _encode(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()


def _decode(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def passkey_options(page: httpx2.Response) -> dict[str, Any]:
    """Parse the options with which a page asks the browser to create or use a passkey."""
    match = re.search(r'data-options="([^"]+)"', page.text)
    assert match is not None, page.text
    options: dict[str, Any] = json.loads(html.unescape(match[1]))
    return options


def localhost_headers(visitor: Visitor) -> dict[str, str]:
    """Return the headers of a browser at ``localhost``: passkeys need a host name."""
    host = f"localhost:{urlsplit(visitor.api_server.url).port}"
    return {"host": host, "origin": f"http://{host}"}


class PasskeyDevice:
    """One passkey: its key, its credential id and its user."""

    def __init__(self) -> None:
        """Generate the key; ``create`` registers it."""
        self._key = ec.generate_private_key(ec.SECP256R1())
        self.credential_id = secrets.token_bytes(16)
        self.user_handle = b""
        self._count = 0

    def _data(self, host: str, flags: int) -> bytes:
        self._count += 1
        head = hashlib.sha256(host.encode()).digest()
        return head + bytes([flags]) + self._count.to_bytes(4, "big")

    def create(self, options: dict[str, Any], origin: str) -> str:
        """Return the response to a page that asks for a new passkey."""
        self.user_handle = _decode(options["user"]["id"])
        numbers = self._key.public_key().public_numbers()
        x, y = numbers.x.to_bytes(32, "big"), numbers.y.to_bytes(32, "big")
        public = cbor2.dumps({1: 2, 3: -7, -1: 1, -2: x, -3: y})
        data = self._data(options["rp"]["id"], _PRESENT | _VERIFIED | _ATTESTED)
        data += bytes(16) + len(self.credential_id).to_bytes(2, "big") + self.credential_id + public
        attestation = cbor2.dumps({"fmt": "none", "attStmt": {}, "authData": data})
        return self._credential(
            "webauthn.create", options, origin, {"attestationObject": _encode(attestation)}
        )

    def use(self, options: dict[str, Any], origin: str, **changes: str) -> str:
        """Return the signed response to a page; ``changes`` replace parts of it."""
        data = self._data(options["rpId"], _PRESENT | _VERIFIED)
        client_data = _client_data("webauthn.get", options["challenge"], origin)
        signature = self._key.sign(data + hashlib.sha256(client_data).digest(), ec.ECDSA(SHA256()))
        response = {
            "authenticatorData": _encode(data),
            "signature": _encode(signature),
            "userHandle": _encode(self.user_handle),
        }
        return self._credential("webauthn.get", options, origin, response | changes)

    def _credential(
        self, kind: str, options: dict[str, Any], origin: str, response: dict[str, str]
    ) -> str:
        client_data = _client_data(kind, options["challenge"], origin)
        return json.dumps({
            "id": _encode(self.credential_id),
            "rawId": _encode(self.credential_id),
            "type": "public-key",
            "response": {"clientDataJSON": _encode(client_data), **response},
            "clientExtensionResults": {},
        })  # fmt: skip


def _client_data(kind: str, challenge: str, origin: str) -> bytes:
    fields = {"type": kind, "challenge": challenge, "origin": origin, "crossOrigin": False}
    return json.dumps(fields).encode()


def add_passkey(visitor: Visitor) -> PasskeyDevice:
    """Add a passkey to a logged-in visitor's account on the security page."""
    device, headers = PasskeyDevice(), localhost_headers(visitor)
    page = visitor.post("/security/passkeys/begin", headers=headers)
    credential = device.create(passkey_options(page), headers["origin"])
    response = visitor.post(
        "/security/passkeys", {"credential": credential, "name": "Phone"}, headers=headers
    )
    assert response.status_code in {200, 303}, response.text
    return device


def log_in_by_passkey(visitor: Visitor, device: PasskeyDevice) -> httpx2.Response:
    """Log in with a passkey, without a password."""
    headers = localhost_headers(visitor)
    page = visitor.post("/login/passkey/begin", headers=headers)
    credential = device.use(passkey_options(page), headers["origin"])
    return visitor.post("/login/passkey", {"credential": credential}, headers=headers)
