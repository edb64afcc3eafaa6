"""What the customer's pages say: one table of sentences for each language, all with the same keys.

Values in braces are filled in when a page is made; they are escaped there, so that no sentence
here and no value can bring markup along.
"""

from typing import Final

from opentill.pages.catalogue import en, zh_hans, zh_hant
from opentill.web.catalogue import Language, with_frame

SENTENCES: Final[dict[Language, dict[str, str]]] = with_frame(
    {"en": en.SENTENCES, "zh-Hans": zh_hans.SENTENCES, "zh-Hant": zh_hant.SENTENCES}
)
