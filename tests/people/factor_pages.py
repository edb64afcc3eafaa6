"""Pages of second factors in tests, and people with a passkey."""

from typing import Final

import httpx2

from people.passkey_device import (
    PasskeyDevice,
    add_passkey,
)
from support.api_server import Shop
from support.people import Visitor, create_person

FACTOR: Final = "/login/factor"


def create_person_with_passkey(shop: Shop, **role: str) -> tuple[Visitor, PasskeyDevice]:
    """Create a member of the shop (``role``) or staff (``staff_role``) with a passkey."""
    ada = create_person(shop.api_server, shop.id if "role" in role else None, **role)  # type: ignore[arg-type]
    return ada, add_passkey(ada)


def read_redirect(response: httpx2.Response) -> tuple[int, str]:
    """Return the status of a response, and where it redirects to ("" for nowhere)."""
    return response.status_code, response.headers.get("location", "")
