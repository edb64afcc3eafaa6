"""Signed responses: every response of V2 is signed by the platform's key, refusals too.

Strict clients check signature and timestamp before they read ``code`` and ``msg``, so they would
show an unsigned refusal as a wrong signature.
"""

from typing import Any, Final

import structlog

from opentill.context import App
from opentill.core import encryption
from opentill.core.errors import ConfigurationError, Unavailable
from opentill.epay import credentials, platform_key, timestamps
from opentill.epay.platform_key import Signer
from opentill.gateways.epay import rsa_signature

_log: Final = structlog.get_logger()
# Texts that others chose: a message may repeat a field's name, the customer entered the email, and
# the provider made its number. All merchants' shops accept the platform's signature, so these must
# not contain the separators of the signed text.
_FOREIGN: Final = ("msg", "buyer", "api_trade_no")
_SEPARATORS: Final = str.maketrans({"&": "＆", "=": "＝"})


class ResponseSigner:
    """Signs responses; while the database is away, with the key that it used last."""

    def __init__(self) -> None:
        """Begin without a key."""
        self._last_signers: dict[str, Signer] = {}  # by the database's address

    async def sign(self, app: App, result: dict[str, Any]) -> dict[str, Any]:
        """Return a response with its timestamp and signature, without empty fields.

        If no key can be read, the response is not signed, which is logged.
        """
        fields = {
            name: value.translate(_SEPARATORS) if name in _FOREIGN else value
            for name, value in result.items()
            if value not in ("", None)
        }
        # The reference server sends the timestamp as text.
        fields["timestamp"] = str(timestamps.now_s())
        signer = await self._signer(app)
        if signer is None:
            return fields
        sign = await signer.sign(fields)
        return {**fields, "sign_type": rsa_signature.SIGN_TYPE, "sign": sign}

    async def _signer(self, app: App) -> Signer | None:
        address = app.settings.database_url or ""
        try:
            async with app.db.connection() as tx:
                signer = await platform_key.find_signer(tx, app.settings.secret_key, app.clock())
        except Unavailable:
            return self._last_signers.get(address)
        except (encryption.WrongKey, ConfigurationError):
            _log.error("the Epay API cannot sign", reason=credentials.WRONG_KEY)
            return None
        self._last_signers[address] = signer
        return signer
