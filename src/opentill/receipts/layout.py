"""Lays out a receipt: its texts in the reader's language, for the page, the PDF and mails."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo

import msgspec

from opentill.core.money import Money
from opentill.receipts.model import PAYMENT_METHOD, Receipt, masked
from opentill.receipts.sheet import Party, Sheet, SumLine, font_files
from opentill.web import accent
from opentill.web.language import Localizer
from opentill.web.translations import N_

_DEFAULT_COLOR: Final = "#0d5c49"


class Reader(msgspec.Struct, frozen=True, kw_only=True):
    """For whom a receipt is laid out.

    ``zones`` are the time zones of its times, the reader's own one first. ``sees_customer``:
    the reader is the customer or the merchant, who may see the name and the whole email address.
    """

    localizer: Localizer
    zones: Sequence[ZoneInfo]
    public_url: str
    sees_customer: bool = False
    logo: bytes | None = None
    font: Path | None = None  # the font of the setting


def sheet_of(receipt: Receipt, reader: Reader) -> Sheet:
    """Return the contents of a receipt's PDF."""
    localizer = reader.localizer

    def _(message: str, **values: object) -> str:
        return localizer.gettext(message, **values).unescape()

    def amount(money: Money) -> str:
        return localizer.amount_with_code(money)

    zones = list(dict.fromkeys(reader.zones))
    day = localizer.day_in(receipt.paid_at, zones[0])
    return Sheet(
        language=localizer.language,
        title=_("Receipt"),
        shop=receipt.shop,
        accent=_rgb(accent.shade(receipt.accent or _DEFAULT_COLOR, "light").link),
        logo=reader.logo,
        mark="" if receipt.livemode else _("Test mode – no real money"),
        facts=_facts(receipt, reader, zones),
        parties=_parties(receipt, reader),
        headline=_("{amount} paid on {day}", amount=amount(receipt.amount), day=day),
        columns=(_("Item"), _("Quantity"), _("Unit price"), _("Amount")),
        item=(
            receipt.item,
            localizer.number(receipt.quantity),
            localizer.amount(receipt.price),
            localizer.amount(receipt.amount),
        ),
        sums=[
            SumLine(
                line.label,
                amount(line.money) if line.is_total else localizer.amount(line.money),
                line.is_total,
            )
            for line in sum_lines(receipt, localizer, zones[0])
        ],
        notes=_notes(receipt, reader),
        fonts=font_files(reader.font, localizer.language),
    )


class Sum(NamedTuple):
    """A line below the item: its label and amount, and whether it is a total."""

    label: str
    money: Money
    is_total: bool = False


def sum_lines(receipt: Receipt, localizer: Localizer, zone: ZoneInfo) -> list[Sum]:
    """Return the lines below the item: the tax, the total, each refund and each chargeback."""

    def _(message: str, **values: object) -> str:
        return localizer.gettext(message, **values).unescape()

    sums: list[Sum] = []
    rate = "" if receipt.rate is None else localizer.exact_percent(receipt.rate)
    if receipt.tax is not None:
        without_tax = Money(receipt.amount.minor - receipt.tax.minor, receipt.amount.currency)
        sums += [
            Sum(_("Amount excluding tax"), without_tax),
            Sum(_("Tax included ({rate})", rate=rate), receipt.tax),
        ]
    sums.append(Sum(_("Total paid"), receipt.amount, is_total=True))
    for refund in receipt.refunds:
        day = localizer.day_in(refund.at, zone)
        sums.append(Sum(_("Refunded on {time}", time=day), _negative(refund.amount)))
        if refund.tax is not None:
            label = _("Tax refunded ({rate})", rate=rate)
            sums.append(Sum(label, _negative(refund.tax)))
    for chargeback in receipt.chargebacks:
        day = localizer.day_in(chargeback.at, zone)
        sums.append(Sum(_("Chargeback on {time}", time=day), _negative(chargeback.amount)))
    if receipt.refunds or receipt.chargebacks:
        label = _("Total after chargeback") if receipt.chargebacks else _("Total after refunds")
        sums.append(Sum(label, receipt.net, is_total=True))
        if receipt.net_tax is not None:
            sums.append(Sum(_("Tax included ({rate})", rate=rate), receipt.net_tax))
    return sums


def _negative(money: Money) -> Money:
    return Money(-money.minor, money.currency)


def _facts(receipt: Receipt, reader: Reader, zones: Sequence[ZoneInfo]) -> list[tuple[str, str]]:
    localizer = reader.localizer

    def _(message: str) -> str:
        return localizer.gettext(message).unescape()

    method = receipt.card or (_(PAYMENT_METHOD[receipt.method]) if receipt.method else "–")
    facts = [(_("Receipt number"), receipt.number)]
    facts += [
        (_("Date paid"), f"{localizer.moment_in(receipt.paid_at, zone)} ({zone.key})")
        for zone in zones
    ]
    facts.append((_("Payment method"), method))
    if receipt.reference:
        facts.append((_("Order number"), receipt.reference))
    return [*facts, (_("Order ID"), receipt.order_id)]


def _parties(receipt: Receipt, reader: Reader) -> list[Party]:
    def _(message: str) -> str:
        return reader.localizer.gettext(message).unescape()

    lines = seller_lines(receipt, reader.localizer)
    parties = [Party(_(N_("Seller")), lines)] if lines else []
    if reader.sees_customer:
        customer = [text for text in (receipt.name, receipt.email) if text]
        if customer:
            parties.append(Party(_("Receipt for"), customer))
    elif receipt.email:
        parties.append(Party(_("Receipt for"), [masked(receipt.email)]))
    return parties


def seller_lines(receipt: Receipt, localizer: Localizer) -> list[str]:
    """Return name, address and tax number of the seller."""
    seller = receipt.seller
    lines = [seller.legal_name or receipt.shop, *(seller.legal_address or "").splitlines()]
    if seller.tax_number:
        number = localizer.gettext("Tax number: {number}", number=seller.tax_number)
        lines.append(number.unescape())
    return lines


def _notes(receipt: Receipt, reader: Reader) -> list[str]:
    url = f"{reader.public_url.rstrip('/')}/receipt/{receipt.session_id}"
    notes = [reader.localizer.gettext("View online: {url}", url=url).unescape()]
    if receipt.contact:
        help_line = reader.localizer.gettext(
            "Need help? Contact {merchant}:", merchant=receipt.shop
        )
        notes.insert(0, f"{help_line.unescape()} {', '.join(receipt.contact)}")
    return notes


def _rgb(color: str) -> tuple[int, int, int]:
    red, green, blue = bytes.fromhex(color[1:])
    return red, green, blue
