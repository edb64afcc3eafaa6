"""Payment links in tests, and their customers."""

import re
from typing import Any, Final
from urllib.parse import urlsplit

from support.api_server import Shop
from support.people import Visitor

FORM_ID: Final = re.compile(r'name="form_id" value="(\w+)"')


def create_link(shop: Shop, **body: Any) -> dict[str, Any]:
    """Create a payment link, for a new product unless the body names something else."""
    if "item" not in body and "productId" not in body:
        body["productId"] = shop.create_product()["id"]
    link: dict[str, Any] = shop.data("POST", "/v1/payment-links", json=body)
    return link


def read_link(shop: Shop, link: dict[str, Any]) -> dict[str, Any]:
    """Return the link as it is now."""
    current: dict[str, Any] = shop.data("GET", f"/v1/payment-links/{link['id']}")
    return current


def open_by_form(visitor: Visitor, link: dict[str, Any], **entries: str) -> str:
    """Post the form of a link's page and return the id of the opened session."""
    path = urlsplit(link["url"]).path
    (form_id,) = FORM_ID.findall(visitor.get(path).text)
    response = visitor.post(path, {"form_id": form_id, "lang": "en", **entries})
    assert response.status_code == 303, response.text
    return urlsplit(response.headers["location"]).path.removeprefix("/checkout/")
