"""What mails say: one table of sentences for each language, all with the same keys.

Values in braces are filled in when a message is made. Sentences are plain text; HTML escapes them.
"""

from typing import Final

from opentill.mail.catalogue import accounts, approvals, en, zh_hans, zh_hant
from opentill.web.catalogue import Language, with_frame

SENTENCES: Final[dict[Language, dict[str, str]]] = with_frame(
    {
        "en": en.SENTENCES | approvals.SENTENCES["en"] | accounts.SENTENCES["en"],
        "zh-Hans": zh_hans.SENTENCES
        | approvals.SENTENCES["zh-Hans"]
        | accounts.SENTENCES["zh-Hans"],
        "zh-Hant": zh_hant.SENTENCES
        | approvals.SENTENCES["zh-Hant"]
        | accounts.SENTENCES["zh-Hant"],
    }
)
