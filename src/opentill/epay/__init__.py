"""The Epay V1 API: shops that speak Epay (易支付) take payments here unchanged."""

from opentill.epay.credentials import (
    WRONG_KEY,
    check_key,
    disable,
    enable,
    everyone,
    find,
    opens,
    rotate,
)
from opentill.epay.model import Credentials, NewCredentials, Notice
from opentill.epay.notices import newest as newest_notices
from opentill.epay.notices import resend, return_address

__all__ = [
    "WRONG_KEY",
    "Credentials",
    "NewCredentials",
    "Notice",
    "check_key",
    "disable",
    "enable",
    "everyone",
    "find",
    "newest_notices",
    "opens",
    "resend",
    "return_address",
    "rotate",
]
