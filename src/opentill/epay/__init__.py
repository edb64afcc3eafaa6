"""The Epay V1 API: shops that speak Epay (易支付) take payments here unchanged."""

from opentill.epay.credentials import (
    WRONG_KEY,
    check_key,
    disable,
    enable,
    find,
    key_decrypts,
    list_credentials,
    rotate,
)
from opentill.epay.model import (
    Credentials,
    NewCredentials,
    Notice,
    NoticeOfOrder,
    NoticeState,
    PaidTwice,
)
from opentill.epay.notices import (
    find_notice,
    list_failed_notices,
    list_notices,
    list_paid_twice,
    resend,
    return_address,
    skip_waiting,
)

__all__ = [
    "WRONG_KEY",
    "Credentials",
    "NewCredentials",
    "Notice",
    "NoticeOfOrder",
    "NoticeState",
    "PaidTwice",
    "check_key",
    "disable",
    "enable",
    "find",
    "find_notice",
    "key_decrypts",
    "list_credentials",
    "list_failed_notices",
    "list_notices",
    "list_paid_twice",
    "resend",
    "return_address",
    "rotate",
    "skip_waiting",
]
