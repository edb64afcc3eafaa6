"""The menu of a portal: the pages that a person may see."""

from typing import cast

import msgspec

from opentill.people import Permission
from opentill.portal.request import PageRequest


class MenuItem(msgspec.Struct, frozen=True):
    """One link of the menu."""

    name: str
    href: str
    here: bool  # whether the link leads to the current page or to one above it


def items(request: PageRequest) -> list[MenuItem]:
    """Return the menu of the requested page."""
    portal = request.portal
    if request.known_access is None and not portal.is_console:
        return []
    menu: list[MenuItem] = []
    home = portal.path.replace("{merchant:id}", request.merchant_id)
    for page in portal.pages:
        # A page in a menu always needs a permission: ``allowed`` is not "anyone" or "a person".
        if page.menu and request.may(cast("Permission", page.allowed)):
            below = page.path.removeprefix(portal.path)
            path = f"{home}{below}"
            here = request.path.rstrip("/") == path or (
                below != "" and request.path.startswith(f"{path}/")
            )
            href = f"{request.base}{path}" if below else f"{request.base}{path}/"
            menu.append(MenuItem(page.menu, href, here))
    return menu
