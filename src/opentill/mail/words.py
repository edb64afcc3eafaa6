"""A message in words: what it says, and what it is put into words with."""

from zoneinfo import ZoneInfo

import msgspec

from opentill.core.money import Money
from opentill.web import translations
from opentill.web.language import Localizer

Fact = tuple[str, str]  # a name and a value
Amount = tuple[int, str]  # minor units and currency


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """A message in words, before it is laid out."""

    subject: str
    paragraphs: list[str]
    facts: list[Fact] = []
    action: Fact | None = None  # what a button says, and where it leads
    note: str = ""
    is_branded: bool = True  # begins with the merchant's name, where there is one


class Words(msgspec.Struct, frozen=True, kw_only=True):
    """What a message is put into words with; ``secret`` is the path that only its reader knows."""

    localizer: Localizer
    zone: ZoneInfo
    public_url: str
    shop: str  # the merchant, as its customers know it; "" where there is none
    secret: str = ""

    def gettext(self, message: str, /, **values: object) -> str:
        """Translate a text as plain text: what is filled in stays as it is."""
        localizer = self.localizer
        return translations.translate(localizer.area, localizer.language, message).format(**values)

    def amount(self, amount: Amount) -> str:
        """Write an amount with its currency: ``$9.99 USD``."""
        minor, currency = amount
        return f"{self.localizer.amount(Money(minor, currency))} {currency}"

    def when(self, at: int) -> str:
        """Write a time in the zone of the message, which it names."""
        return f"{self.localizer.moment_in(at, self.zone)} ({self.zone.key})"

    def url(self, path: str) -> str:
        """Return the address of one of our pages."""
        return self.public_url.rstrip("/") + path
