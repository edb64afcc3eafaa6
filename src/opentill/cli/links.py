"""``opentill links create|list|show|set|qr``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from opentill.cli import inputs, output, session
from opentill.cli.registration import acting, add_group

if TYPE_CHECKING:
    from opentill.db.database import Tx
    from opentill.merchants import Actor
    from opentill.payment_links import LinkUpdate, PaymentLink

_NONE = "none"  # an option with this text removes the optional value
_COLUMNS = ("id", "merchantId", "status", "sells", "payments", "openSessions", "maxUses", "url")


def register(app: typer.Typer) -> None:
    """Add the group."""
    add_group(
        app,
        "links",
        "Payment links: addresses at which any number of customers can pay.",
        create=create,
        list=list_,
        show=show,
        set=set_,
        qr=qr,
    )


async def _to_record(tx: "Tx", links: "list[PaymentLink]", now: int) -> list[dict[str, Any]]:
    """Return links like the API, with the merchant and a short description."""
    from opentill import payment_links
    from opentill.payment_links import PaymentLinkOut

    public_url = session.settings().public_url
    records: list[dict[str, Any]] = []
    for link in links:
        usages = await payment_links.find_usage(tx, link.merchant_id, [link.id])
        out = PaymentLinkOut.from_link(link, usages[link.id], public_url, now)
        extra = {"merchantId": link.merchant_id, "sells": link.name or link.product_id}
        records.append({**output.plain(out), **extra})
    return records


@acting(without_reason=inputs.NO_REASON)
def create(  # noqa: PLR0913 - the fields of a link
    merchant_id: str,
    *,
    product: Annotated[str | None, typer.Option(help="The product that it sells.")] = None,
    name: Annotated[str | None, typer.Option(help="Without a product: what it sells.")] = None,
    currency: Annotated[str | None, typer.Option(help="Without a product: its currency.")] = None,
    price: Annotated[str | None, typer.Option(help="Without a product: the price of one.")] = None,
    at_least: Annotated[
        str | None,
        typer.Option(
            "--min", help="Instead of a price: the smallest amount that a customer can enter."
        ),
    ] = None,
    at_most: Annotated[
        str | None, typer.Option("--max", help="The largest amount that a customer can enter.")
    ] = None,
    max_quantity: Annotated[
        int, typer.Option(help="The largest quantity that a customer can buy at once.")
    ] = 1,
    max_uses: Annotated[int | None, typer.Option(help="How many payments it accepts.")] = None,
    expires: Annotated[
        str | None, typer.Option(help="Until when: 2026-12-31, or 90d (from now).")
    ] = None,
    reference: Annotated[str | None, typer.Option(help="The shop's own number.")] = None,
    actor: "Actor",
) -> dict[str, Any]:
    """Create a payment link: an address for any number of customers."""
    import msgspec

    from opentill import merchants, payment_links
    from opentill.http import strictjson
    from opentill.payment_links import LinkBody

    item = {
        "name": name,
        "currency": currency,
        "price": price,
        "minAmount": at_least,
        "maxAmount": at_most,
    }
    fields = {
        "productId": product,
        "item": {key: value for key, value in item.items() if value is not None} or None,
        "maxQuantity": max_quantity,
        "maxUses": max_uses,
        "expiresAt": inputs.moment("expires", expires, end=True, ahead=True),
        "clientReference": reference,
    }
    set_fields = {key: value for key, value in fields.items() if value is not None}
    body = strictjson.decode(msgspec.json.encode(set_fields), LinkBody)

    async def work(tx: "Tx", now: int) -> dict[str, Any]:
        await merchants.find(tx, merchant_id)
        link = await payment_links.create(tx, {}, merchant_id, body, now, actor=actor)
        (record,) = await _to_record(tx, [link], now)
        return record

    return session.transact(work)


def list_(
    merchant_id: inputs.OnlyMerchant = None,
    *,
    limit: Annotated[int, typer.Option(min=1, help="How many, newest first.")] = 100,
) -> output.Result:
    """List payment links, newest first."""
    from opentill import payment_links

    async def work(tx: "Tx") -> list[dict[str, Any]]:
        links = await payment_links.search(tx, merchant_id, limit)
        return await _to_record(tx, links, await session.now(tx))

    return output.Result(session.query(work), _COLUMNS)


def show(link_id: str) -> dict[str, Any]:
    """Show a payment link, and what it has sold."""
    from opentill import payment_links

    async def work(tx: "Tx") -> dict[str, Any]:
        link = await payment_links.find_anywhere(tx, link_id)
        (record,) = await _to_record(tx, [link], await session.now(tx))
        return record

    return session.query(work)


def _update(fields: dict[str, Any]) -> "LinkUpdate":
    """Return the update that the options describe. Raises Invalid."""
    import msgspec

    from opentill.core.errors import Invalid
    from opentill.http import strictjson
    from opentill.payment_links import LinkUpdate

    set_fields = {
        key: None if value == _NONE else value for key, value in fields.items() if value is not None
    }
    if not set_fields:
        raise Invalid("link", "link must be given something to change, such as --inactive")
    return strictjson.decode(msgspec.json.encode(set_fields), LinkUpdate)


@acting(without_reason=inputs.NO_REASON)
def set_(  # noqa: PLR0913 - the fields of a link
    link_id: str,
    *,
    active: Annotated[
        bool | None, typer.Option("--active/--inactive", help="Whether it can be used.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="Without a product: what it sells.")] = None,
    description: Annotated[
        str | None, typer.Option(help="Without a product: a longer text.")
    ] = None,
    max_quantity: Annotated[
        int | None, typer.Option(help="The largest quantity that a customer can buy at once.")
    ] = None,
    max_uses: Annotated[
        str | None, typer.Option(help="How many payments it accepts; none: any number.")
    ] = None,
    expires: Annotated[
        str | None, typer.Option(help="Until when: 2026-12-31, 90d (from now), or none.")
    ] = None,
    reference: Annotated[str | None, typer.Option(help="The shop's own number, or none.")] = None,
    actor: "Actor",
) -> dict[str, Any]:
    """Change a payment link, or enable or disable it. Open sessions do not change."""
    from opentill import payment_links

    item = {"name": name, "description": description}
    body = _update({
        "active": active,
        "item": {key: text for key, text in item.items() if text is not None} or None,
        "maxQuantity": max_quantity,
        "maxUses": int(max_uses) if max_uses and max_uses.isdecimal() else max_uses,
        "expiresAt": expires
        if expires == _NONE
        else inputs.moment("expires", expires, end=True, ahead=True),
        "clientReference": reference,
    })  # fmt: skip

    async def work(tx: "Tx", now: int) -> dict[str, Any]:
        stored = await payment_links.find_anywhere(tx, link_id)
        link = await payment_links.update(tx, stored.merchant_id, link_id, body, now, actor=actor)
        (record,) = await _to_record(tx, [link], now)
        return record

    return session.transact(work)


def qr(
    link_id: str,
    *,
    to: Annotated[Path, typer.Option("--output", help="A file that ends in .svg or .png.")],
) -> dict[str, Any]:
    """Write the QR code of a payment link to a file."""
    from opentill import payment_links
    from opentill.core.errors import Invalid
    from opentill.web import qr as codes

    draw = {".svg": codes.svg, ".png": codes.png}.get(to.suffix.lower())
    if draw is None:
        raise Invalid("output", "output must be a file that ends in .svg or .png")
    link = session.query(lambda tx: payment_links.find_anywhere(tx, link_id))
    url = link.address(session.settings().public_url)
    with inputs.target(to) as file:
        file.write(draw(url))
    return {"id": link.id, "url": url, "file": str(to)}
