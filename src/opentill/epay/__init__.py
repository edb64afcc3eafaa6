"""The Epay API: shops that speak Epay (易支付), V1 or V2, take payments here unchanged."""

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
    NewKeyPair,
    Notice,
    NoticeOfOrder,
    NoticeState,
    PaidTwice,
    PlatformKey,
    Versions,
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
from opentill.epay.platform_key import find_or_none as find_platform_key
from opentill.epay.versions import (
    PrivateHalf,
    create_key_pair,
    read_public_key,
    set_public_key,
    set_versions,
)

__all__ = [
    "WRONG_KEY",
    "Credentials",
    "NewCredentials",
    "NewKeyPair",
    "Notice",
    "NoticeOfOrder",
    "NoticeState",
    "PaidTwice",
    "PlatformKey",
    "PrivateHalf",
    "Versions",
    "check_key",
    "create_key_pair",
    "disable",
    "enable",
    "find",
    "find_notice",
    "find_platform_key",
    "key_decrypts",
    "list_credentials",
    "list_failed_notices",
    "list_notices",
    "list_paid_twice",
    "read_public_key",
    "resend",
    "return_address",
    "rotate",
    "set_public_key",
    "set_versions",
    "skip_waiting",
]
