"""Images of products: uploaded files, which are recognized by their content."""

import asyncio
import hashlib
import re
from typing import Any, Final

import httpx2
import pytest

from dashboard.pages import hidden_field_values
from opentill import products
from opentill.db.database import Db
from opentill.products import images
from support import world
from support.api_server import Shop
from support.people import Visitor, create_person
from support.pictures import PICTURE, png

TEA: Final = {"name": "Tea", "price": "9.99", "currency": "USD", "description": "", "image": ""}


def send(visitor: Visitor, path: str, content: bytes, **fields: str) -> httpx2.Response:
    """Send the form of a product with a file as a browser does, declared as SVG."""
    files: Any = {"picture": ("tea.svg", content, "image/svg+xml")}
    return visitor.http.post(path, data=TEA | fields, files=files)


def test_an_uploaded_image_is_shown_to_customers(shop: Shop) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    path = f"/dashboard/{shop.id}/products"
    (form_id,) = set(hidden_field_values(owner.get(path), "form_id"))
    created = send(owner, path, PICTURE, form_id=form_id)
    assert created.status_code == 303
    (product,) = shop.data("GET", "/v1/products")["items"]
    digest = hashlib.sha256(PICTURE).hexdigest()
    assert product["image"] == f"{shop.api_server.url}/images/{shop.id}/{digest}"
    served = shop.api_server.http.get(f"/images/{shop.id}/{digest}")
    assert (served.content, served.headers["content-type"]) == (PICTURE, "image/png")
    assert "immutable" in served.headers["cache-control"]
    headers = {"if-none-match": served.headers["etag"]}
    again = shop.api_server.http.get(f"/images/{shop.id}/{digest}", headers=headers)
    assert again.status_code == 304
    session = shop.create_session(product["id"])
    assert product["image"] in shop.api_server.http.get(f"/checkout/{session['id']}").text

    # Another image, or none, replaces it; open sessions keep theirs.
    path = f"{path}/{product['id']}"
    other = png(color=b"\xff\x00\x00")
    version = str(product["updatedAt"])
    saved = send(owner, path, other, version=version, image=product["image"])
    assert saved.status_code == 303
    changed = shop.data("GET", f"/v1/products/{product['id']}")
    assert changed["image"].endswith(hashlib.sha256(other).hexdigest())
    assert product["image"] in shop.api_server.http.get(f"/checkout/{session['id']}").text
    assert shop.api_server.http.get(f"/images/{shop.id}/{'0' * 64}").status_code == 404


def test_a_wrong_file_is_refused_at_its_field_beside_other_errors(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    path = f"/dashboard/{shop.id}/products"
    for content, error in (
        (b"<svg/>", "This file is no PNG, JPEG or WebP picture"),
        (png(16, 16), "sides of 32 to 4096 pixels"),
        (PICTURE[:-4], "damaged or incomplete"),
    ):
        refusal = send(owner, path, content, name="")
        assert refusal.status_code == 400
        assert re.findall(r'id="(\w+)-error"', refusal.text) == ["name", "picture"]
        assert error in refusal.text.partition('id="picture-error"')[2]
    # A file need not be chosen again if another entry is wrong; a box without its check removes it.
    refusal = send(owner, path, PICTURE, name="")
    digest = hashlib.sha256(PICTURE).hexdigest()
    assert (
        f'value="{shop.api_server.url}/images/{shop.id}/{digest}" checked> Keep this image'
        in refusal.text
    )
    assert 'name="image" type=' not in refusal.text  # the address of an upload is not shown
    refusal = send(owner, path, bytes(images.MAX_IMAGE_BYTES + 100_000))
    assert "The picture is too large: 1 MB at most" in refusal.text
    monkeypatch.setattr(images, "MOST_IMAGES", 1)
    assert "1,000 images, the maximum" in send(owner, path, png(100, 100)).text
    assert shop.data("GET", "/v1/products")["items"] == []


async def test_an_image_that_is_uploaded_by_several_people_at_once_is_stored_once(db: Db) -> None:
    merchant = await db.run(world.create_merchant)
    paths = await asyncio.gather(
        *(
            db.run(lambda tx: products.store_image(tx, merchant.id, PICTURE, world.NOW))
            for _ in range(8)
        )
    )
    digest = hashlib.sha256(PICTURE).hexdigest()
    assert set(paths) == {images.image_path(merchant.id, digest)}
    stored = await db.read(lambda tx: products.find_image(tx, merchant.id, digest))
    assert stored.content == PICTURE
