"""The form that adds or changes a product: its entries, its image, and the errors of all fields."""

from collections.abc import Mapping
from typing import Final, TypeVar

import msgspec

from opentill import merchants, products
from opentill.core import amounts
from opentill.core.errors import Invalid, PayloadTooLarge
from opentill.http import strictjson
from opentill.portal import form_checks
from opentill.portal.labels import AMOUNT_ERROR
from opentill.portal.request import PageRequest
from opentill.products import ProductBody, ProductUpdate
from opentill.web.translations import N_

Entries = dict[str, str]  # the input of a form, by field
B = TypeVar("B", ProductBody, ProductUpdate)

# Maps a field of the service to its error text.
ERRORS: Final = {
    "name": N_("Enter a name of 1 to 200 characters"),
    "price": N_("Enter an amount from 0.01 to 99,999,999.99, such as 24.90"),
    "currency": N_("Choose one of the currencies"),
    "description": N_("Enter at most 1,000 characters"),
    "image": N_(
        "Enter a whole address such as https://shop.example.com/page, "
        "of at most 2,048 characters, without spaces, user name and "
        "password"
    ),
}
_IMAGE_ERROR: Final = {
    "size": N_("The picture is too large: 1 MB at most"),
    "kind": N_("This file is no PNG, JPEG or WebP picture. Choose another one"),
    "broken": N_("The picture is damaged or incomplete. Choose another file"),
    "moving": N_("Choose a picture that does not move"),
    "dimensions": N_(
        "Choose a picture with sides of 32 to 4096 pixels, the longer "
        "one at most ten times the shorter"
    ),
    "number": N_("You have uploaded 1,000 images, the maximum. Enter the address of an image"),
}
# Valid entries in place of wrong ones, so that the fields after them are checked too.
_VALID: Final = {
    "name": {"name": "-"},
    "price": {"price": "1"},
    "currency": {"currency": "USD"},
    "description": {"description": ""},
    "image": {"image": ""},
}


def _read_entries(form: dict[str, str]) -> Entries:
    """Return the stripped entries, with LF as line breaks."""
    return {name: form.get(name, "").strip().replace("\r\n", "\n") for name in ERRORS}


def build_body(entries: Mapping[str, str], body: type[B]) -> B:
    """Decode entries as the API decodes its bodies. Raises Invalid."""
    values: dict[str, str | None] = {
        **entries,
        **{name: entries[name] or None for name in ("description", "image")},
        "price": amounts.parse_entry("price", entries["price"], entries["currency"]),
    }
    return strictjson.decode(msgspec.json.encode(values), body)


def _read_error(problem: Invalid) -> dict[str, str]:
    """Return the error of a field."""
    field = problem.field or ""
    if isinstance(problem, amounts.UnreadableAmount) and problem.problem in AMOUNT_ERROR:
        return {field: AMOUNT_ERROR[problem.problem]}
    return {field: ERRORS[field]}


def uploads_address(request: PageRequest) -> str:
    """Return the start of the addresses of all images that the merchant has uploaded."""
    return request.app.settings.public_url + products.image_path(request.merchant_id, "")


async def read_form(request: PageRequest) -> tuple[Entries, dict[str, str]]:
    """Return the entries of the form, and the error of its image.

    A file that was sent is stored, and its address is the entry of the image, so that the file need
    not be chosen again if another entry is wrong.
    """
    try:
        entries, files = _read_entries(await request.form()), await request.files()
    except PayloadTooLarge:
        return dict.fromkeys(ERRORS, ""), {"picture": _IMAGE_ERROR["size"]}
    file = files.get("picture")
    if file is None or not file.content:
        return entries, {}
    merchant_id, content, now = request.merchant_id, file.content, request.now
    try:
        path = await request.app.db.run(
            lambda tx: products.store_image(tx, merchant_id, content, now)
        )
    except merchants.LogoRefused as problem:
        return entries, {"picture": _IMAGE_ERROR[problem.why]}
    except products.TooManyImages:
        return entries, {"picture": _IMAGE_ERROR["number"]}
    return {**entries, "image": f"{request.app.settings.public_url}{path}"}, {}


async def collect_errors(entries: Entries) -> dict[str, str]:
    """Return the errors of all fields."""

    async def check(entries: Mapping[str, str]) -> None:
        products.check(build_body(entries, ProductBody))

    return await form_checks.collect_errors(entries, check, _read_error, _VALID)
