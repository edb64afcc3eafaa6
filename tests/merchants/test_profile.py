"""A merchant's profile and logo are checked, versioned and audited."""

import hashlib

import pytest

from opentill import merchants
from opentill.core.errors import Invalid, NotFound
from opentill.db.database import Tx
from opentill.merchants import Actor, logos
from support import world
from support.pictures import PICTURE, chunk, jpeg, png, webp

ADA, BOB = Actor("ada", "settings"), Actor("bob", "settings")


@pytest.mark.parametrize(
    ("field", "text", "expected"),
    [
        ("display_name", "  Harbour Books ", "Harbour Books"),
        ("display_name", "書" * 80, "書" * 80),
        ("accent_color", "0D5C49", "#0d5c49"),
        ("accent_color", " #Ff00ff ", "#ff00ff"),
        ("support_email", " help@example.com", "help@example.com"),
        ("support_url", "https://example.com/help?x=1", "https://example.com/help?x=1"),
        ("terms_url", "http://example.com", "http://example.com"),
        ("time_zone", "Asia/Kathmandu", "Asia/Kathmandu"),
        ("legal_name", " Harbour Books GmbH ", "Harbour Books GmbH"),
        ("legal_address", " Quay  1 \r\n\n20457 Hamburg ", "Quay 1\n20457 Hamburg"),
        ("tax_number", "DE123456789", "DE123456789"),
        ("tax_rate", "0.190", "0.19"),
        ("tax_rate", "0.08875", "0.08875"),
        ("tax_rate", "0", "0"),
        *((field, "  ", None) for field in merchants.PROFILE_FIELDS if field != "time_zone"),
    ],
)
def test_a_profile_field_is_normalized(field: str, text: str, expected: str | None) -> None:
    assert merchants.check_profile(field, text) == expected


@pytest.mark.parametrize(
    ("field", "text"),
    [
        ("display_name", "x" * 81),
        ("display_name", "a\0b"),
        ("accent_color", "green"),
        ("accent_color", "#0d5c4"),
        ("accent_color", "#0d5c49;}"),
        ("accent_color", "#0d5c4９"),
        ("support_email", "help"),
        ("support_url", "javascript:alert(1)"),
        ("support_url", "https://me:secret@example.com/"),
        ("terms_url", "https://example.com/{CHECKOUT_SESSION_ID}"),
        ("terms_url", "/terms"),
        ("legal_name", "x" * 121),
        ("legal_address", "\n".join("1234567")),
        ("legal_address", "x" * 61),
        ("legal_address", "a\x07b"),
        ("tax_number", "9" * 41),
        ("tax_rate", "1"),
        ("tax_rate", "19"),
        ("tax_rate", "0.123456"),
        ("tax_rate", "0,19"),
        ("tax_rate", "-0.1"),
        ("time_zone", ""),
        ("time_zone", "Berlin"),
        ("time_zone", "../../etc/passwd"),
        ("time_zone", "a\0b"),
    ],
)
def test_an_invalid_profile_field_is_refused(field: str, text: str) -> None:
    with pytest.raises(Invalid) as refused:
        merchants.check_profile(field, text)
    assert refused.value.field == field.title().replace("_", "").replace(
        field[0].upper(), field[0], 1
    )


async def test_a_change_from_a_stale_version_is_refused(tx: Tx) -> None:
    shop = await world.create_merchant(tx)
    stale_version = merchants.version_of(shop)
    changes = {"accent_color": "#112233", "time_zone": "Asia/Tokyo"}
    for _ in range(2):  # the second change is a repetition without effect
        changed_shop = await merchants.change_profile(
            tx, shop.id, changes, world.NOW, actor=ADA, version=stale_version
        )
    with pytest.raises(merchants.Stale):
        await merchants.change_profile(
            tx, shop.id, {"display_name": "B"}, world.NOW, actor=BOB, version=stale_version
        )
    assert await merchants.find(tx, shop.id) == changed_shop
    assert changed_shop.accent_color == "#112233"
    assert changed_shop.time_zone == "Asia/Tokyo"
    assert changed_shop.display_name is None
    current_version = merchants.version_of(changed_shop)
    await merchants.change_profile(
        tx, shop.id, {"accent_color": ""}, world.NOW, actor=BOB, version=current_version
    )
    rows = await merchants.audit_log(tx, shop.id)
    assert [(row.who, row.subject) for row in rows if row.action == "profile set"] == [
        ("bob", "accentColor: #112233 → none"),
        ("ada", "accentColor: none → #112233, timeZone: UTC → Asia/Tokyo"),
    ]
    with pytest.raises(NotFound):
        await merchants.change_profile(tx, "mer_x", changes, world.NOW, actor=ADA)


async def test_a_receipt_shows_the_seller_of_the_time_of_the_payment(tx: Tx) -> None:
    shop = await world.create_merchant(tx)
    assert await merchants.seller_at(tx, shop.id, world.NOW) == merchants.Seller()
    first = {"legal_name": "Harbour GmbH", "legal_address": "Quay 1\nBremen", "tax_rate": "0.16"}
    await merchants.change_profile(tx, shop.id, first, world.NOW, actor=ADA)
    await merchants.change_profile(tx, shop.id, {"tax_rate": "0.19"}, world.NOW + 10, actor=ADA)
    await merchants.change_profile(tx, shop.id, {"display_name": "H"}, world.NOW + 20, actor=ADA)
    sellers = [
        await merchants.seller_at(tx, shop.id, world.NOW + delta) for delta in (-5, 0, 9, 10, 99)
    ]
    assert [seller.tax_rate for seller in sellers] == ["0.16", "0.16", "0.16", "0.19", "0.19"]
    assert {seller.legal_name for seller in sellers} == {"Harbour GmbH"}
    rows = await merchants.audit_log(tx, shop.id)
    subjects = [row.subject for row in rows if row.action == "profile set"]
    assert "legalAddress: none → Quay 1 / Bremen" in subjects[-1]
    assert subjects[-2] == "taxRate: 0.16 → 0.19"


PICTURE_PARTS = PICTURE.partition(b"IDAT")


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (png(), ("image/png", 64, 48)),
        (png(2048, 205), ("image/png", 2048, 205)),
        (jpeg(100, 80), ("image/jpeg", 100, 80)),
        (jpeg(frame=0xC2), ("image/jpeg", 64, 48)),
        (webp(), ("image/webp", 64, 48)),
        (webp(b"VP8L", 300, 200), ("image/webp", 300, 200)),
        (webp(b"VP8X", 40, 400, flags=0x10), ("image/webp", 40, 400)),
        (b"", "kind"),
        (b"<svg xmlns='http://www.w3.org/2000/svg' width='64' height='64'/>", "kind"),
        (b"GIF89a" + PICTURE, "kind"),
        (b"\0" + PICTURE, "kind"),
        (PICTURE[:-1], "broken"),
        (PICTURE[:20], "broken"),
        (PICTURE_PARTS[0] + b"IDAX" + PICTURE_PARTS[2], "broken"),
        (PICTURE[:8] + chunk(b"IEND", b""), "broken"),
        (jpeg()[:-2], "broken"),
        (jpeg()[:30], "broken"),
        (jpeg(frame=0xC4), "broken"),
        (webp()[:-1], "broken"),
        (webp(b"ALPH"), "broken"),
        (png(64, 48, chunk(b"acTL", b"\0" * 8)), "moving"),
        (webp(b"VP8X", flags=0x02), "moving"),
        (png(31, 64), "dimensions"),
        (png(2049, 300), "dimensions"),
        (png(400, 39), "dimensions"),
        (jpeg(0, 0), "broken"),
        (PICTURE + b"\0" * logos.MAX_BYTES, "size"),
    ],
)
def test_a_logo_is_recognized_by_its_content(content: bytes, expected: object) -> None:
    try:
        picture = logos.recognize(content)
    except logos.LogoRefused as refused:
        assert refused.why == expected
    else:
        assert (picture.media_type, picture.width, picture.height) == expected


async def test_a_change_of_a_logo_that_was_replaced_meanwhile_is_refused(tx: Tx) -> None:
    shop, red_picture = await world.create_merchant(tx), png(color=b"\xff\0\0")
    digests = [hashlib.sha256(picture).hexdigest() for picture in (PICTURE, red_picture)]
    for _ in range(2):
        await merchants.set_logo(tx, shop.id, PICTURE, world.NOW, actor=ADA, seen="")
    with pytest.raises(merchants.Stale):
        await merchants.set_logo(tx, shop.id, red_picture, world.NOW, actor=BOB, seen="")
    with pytest.raises(merchants.Stale):
        await merchants.remove_logo(tx, shop.id, world.NOW, actor=BOB, seen=digests[1])
    await merchants.set_logo(tx, shop.id, red_picture, world.NOW, actor=BOB, seen=digests[0])
    assert (await merchants.find_logo(tx, shop.id, digests[1])).content == red_picture
    with pytest.raises(NotFound):
        await merchants.find_logo(tx, shop.id, digests[0])
    with pytest.raises(NotFound):
        await merchants.find_logo(tx, (await world.create_merchant(tx)).id, digests[1])
    for _ in range(2):
        await merchants.remove_logo(tx, shop.id, world.NOW, actor=ADA, seen=digests[1])
    assert (await merchants.find(tx, shop.id)).logo_path is None
    rows = await merchants.audit_log(tx, shop.id)
    assert [row.who for row in rows if row.action == "profile logo"] == ["ada", "bob", "ada"]
