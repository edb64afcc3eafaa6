"""The Epay API: shops that speak Epay (易支付), V1 or V2, take payments here unchanged."""

from opentill.epay.checks import AddressCheck, check_address, list_addresses
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
from opentill.epay.imported import (
    ImportedEpayOrder,
    adopt_platform_key,
    find_imported_order,
    find_merchant_of_pid,
    insert_credentials,
    notice_of,
    split_type,
)
from opentill.epay.imported import insert_orders as insert_imported_orders
from opentill.epay.imported import replace_keys as replace_imported_keys
from opentill.epay.imported import start_notices as start_imported_notices
from opentill.epay.model import (
    AddressToCheck,
    Credentials,
    NewCredentials,
    NewKeyPair,
    NewMerchantKeys,
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
    "AddressCheck",
    "AddressToCheck",
    "Credentials",
    "ImportedEpayOrder",
    "NewCredentials",
    "NewKeyPair",
    "NewMerchantKeys",
    "Notice",
    "NoticeOfOrder",
    "NoticeState",
    "PaidTwice",
    "PlatformKey",
    "PrivateHalf",
    "Versions",
    "adopt_platform_key",
    "check_address",
    "check_key",
    "create_key_pair",
    "disable",
    "enable",
    "find",
    "find_imported_order",
    "find_merchant_of_pid",
    "find_notice",
    "find_platform_key",
    "insert_credentials",
    "insert_imported_orders",
    "key_decrypts",
    "list_addresses",
    "list_credentials",
    "list_failed_notices",
    "list_notices",
    "list_paid_twice",
    "notice_of",
    "read_public_key",
    "replace_imported_keys",
    "resend",
    "return_address",
    "rotate",
    "set_public_key",
    "set_versions",
    "skip_waiting",
    "split_type",
    "start_imported_notices",
]
