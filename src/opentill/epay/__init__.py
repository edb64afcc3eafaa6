"""The Epay V1 API: shops that speak Epay (易支付) take payments here unchanged."""

from opentill.epay.credentials import (
    WRONG_KEY,
    all_credentials,
    check_key,
    disable,
    enable,
    find,
    key_decrypts,
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
from opentill.epay.notices import failed as failed_notices
from opentill.epay.notices import newest as newest_notices
from opentill.epay.notices import of_order as notice_of
from opentill.epay.notices import paid_twice, resend, return_address, skip_waiting

__all__ = [
    "WRONG_KEY",
    "Credentials",
    "NewCredentials",
    "Notice",
    "NoticeOfOrder",
    "NoticeState",
    "PaidTwice",
    "all_credentials",
    "check_key",
    "disable",
    "enable",
    "failed_notices",
    "find",
    "key_decrypts",
    "newest_notices",
    "notice_of",
    "paid_twice",
    "resend",
    "return_address",
    "rotate",
    "skip_waiting",
]
