"""The menu of a portal: the pages that a person may see, in groups with icons."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, cast

import msgspec

from opentill.people import Permission, Workplace, member_may
from opentill.portal.model import MenuGroup
from opentill.portal.portal import Portal
from opentill.portal.request import PageRequest
from opentill.web.translations import N_, NC_

# Group → its name and icon, in the order of the menus.
GROUPS: Final[dict[MenuGroup, tuple[str, str]]] = {
    "home": (N_("Home"), "house"),
    "payments": (NC_("menu", "Payments"), "credit-card"),
    "customers": (N_("Customers"), "users"),
    "catalogue": (N_("Catalog"), "package"),
    "merchants": (N_("Merchants"), "store"),
    "money": (NC_("menu", "Money"), "wallet"),
    "developers": (N_("Developers"), "code"),
    "security": (NC_("menu", "Security"), "shield-check"),
    "system": (NC_("menu", "System"), "sliders-horizontal"),
    "settings": (N_("Settings"), "settings"),
}
# The matters that wait on pages of the menu, by their paths below the portal's.
_WAITING_FOR: Final = {
    "/payments": N_("Failed refunds"),
    "/disputes": N_("Disputes to respond to"),
}
# The lists of what needs attention: the console's home page leads to them.
_BELOW_HOME: Final = "/needs/"


class MenuItem(msgspec.Struct, frozen=True):
    """One link of the menu."""

    name: str
    href: str
    is_current: bool  # whether the link leads to the current page or to one above it
    waiting: int = 0  # how much waits for the person there
    waiting_for: str = ""  # the matter that waits there


class MenuSection(msgspec.Struct, frozen=True):
    """A group of the menu: its icon, its own link, and the links below it.

    If a page has the name of the group, the group's link leads to that page, which has no link
    below. Otherwise it leads to the first page below. A group of a single page has no links below.
    """

    icon: str
    link: MenuItem
    items: tuple[MenuItem, ...]

    @property
    def is_open(self) -> bool:
        """Whether the links below are shown: one of the group's pages is the current one."""
        return any(item.is_current for item in (self.link, *self.items))

    @property
    def all_waiting_for(self) -> tuple[str, ...]:
        """The matters that wait for the person on the pages of the group."""
        return tuple(item.waiting_for for item in (self.link, *self.items) if item.waiting)

    @property
    def waiting(self) -> int:
        """How much waits for the person on the pages of the group."""
        return self.link.waiting + sum(item.waiting for item in self.items)


def sections(request: PageRequest) -> list[MenuSection]:
    """Return the menu of the requested page; groups without a page are left out."""
    if request.optional_access is None and not request.portal.is_console:
        return []
    return _build(request, request.portal, request.merchant_id, request.may)


def sections_of_account(request: PageRequest, workplaces: Sequence[Workplace]) -> list[MenuSection]:
    """Return the menu of the person's own pages: that of the console or of their only merchant.

    It is empty for a person without either, and for members of several merchants.
    """
    console, dashboard = request.portal.neighbors or (None, None)
    if console is not None and request.login.staff_role is not None:
        return _build(request, console, "", request.may)
    if dashboard is not None and len(workplaces) == 1:
        (workplace,) = workplaces
        may = partial(member_may, workplace.role)
        return _build(request, dashboard, workplace.merchant_id, may)
    return []


def creations(request: PageRequest) -> list[MenuItem]:
    """Return the links to the forms that create something and that the person may send."""
    portal = request.portal
    if request.optional_access is None:
        if request.console_of_staff is None:
            return []
        portal = request.console_of_staff
    home = portal.path.replace("{merchant:id}", request.merchant_id)
    return [
        MenuItem(each.name, f"{request.base}{home}{each.below}", is_current=False)
        for each in portal.creations
        if request.may(each.allowed)
    ]


def _build(
    request: PageRequest, portal: Portal, merchant_id: str, may: Callable[[Permission], bool]
) -> list[MenuSection]:
    menu: dict[MenuGroup, list[MenuItem]] = {}
    home = portal.path.replace("{merchant:id}", merchant_id)
    for page in portal.pages:
        # A page in a menu always needs a permission: ``allowed`` is not "anyone" or "a person".
        if page.menu and may(cast("Permission", page.allowed)):
            below = page.path.removeprefix(portal.path)
            path = f"{home}{below}"
            is_current = request.path.rstrip("/") == path or request.path.startswith(
                f"{path}/" if below else f"{path}{_BELOW_HOME}"
            )
            href = f"{request.base}{path}" if below else f"{request.base}{path}/"
            waiting = request.waiting.get(below, 0)
            item = MenuItem(page.menu, href, is_current, waiting, _WAITING_FOR.get(below, ""))
            menu.setdefault(page.group, []).append(item)
    # Only the nearest page is marked as current, and not a page above it.
    current = max(
        (item.href for items in menu.values() for item in items if item.is_current),
        key=len,
        default="",
    )
    for items in menu.values():
        items[:] = [
            msgspec.structs.replace(item, is_current=item.href == current) for item in items
        ]
    if "developers" in menu:
        reference = MenuItem(N_("API reference"), f"{request.base}/docs", is_current=False)
        menu["developers"].append(reference)
    return [_section(group, menu[group]) for group in GROUPS if group in menu]


def nearest(request: PageRequest) -> MenuItem | None:
    """Return the link of the menu to the list above the requested path, None if there is none."""
    items = [item for section in sections(request) for item in (section.link, *section.items)]
    path = f"{request.base}{request.path}"
    above = [item for item in items if f"{path}/".startswith(f"{item.href.rstrip('/')}/")]
    # A group may lead to the first page below it, whose own name is the better one.
    return max(reversed(above), key=lambda item: len(item.href), default=None)


def _section(group: MenuGroup, items: list[MenuItem]) -> MenuSection:
    name, icon = GROUPS[group]
    group_item = (
        items[0] if len(items) == 1 else next((item for item in items if item.name == name), None)
    )
    below = tuple(item for item in items if item is not group_item)
    if group_item is None:
        return MenuSection(icon, MenuItem(name, items[0].href, is_current=False), below)
    return MenuSection(icon, group_item, below)
