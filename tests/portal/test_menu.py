"""The menus have the pages that a person may see, in groups."""

import re

from support.api_server import Shop
from support.people import create_person

_MENU = re.compile(r'<nav class="menu".*?</nav>', re.DOTALL)
_LINK = re.compile(r'<a(?: class="(menu-group)")? href="([^"]*)"( aria-current="page")?>')


def menu_links(html: str) -> list[tuple[bool, str, bool]]:
    """Return each link of a page's menu: whether it is a group, its path, whether it is current."""
    match = _MENU.search(html)
    assert match is not None
    return [(bool(group), path, bool(here)) for group, path, here in _LINK.findall(match[0])]


def test_a_group_of_one_page_is_that_page_and_other_groups_list_their_pages(shop: Shop) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    home = f"/dashboard/{shop.id}"
    links = menu_links(owner.get(f"{home}/").text)
    assert links[:4] == [
        (True, f"{home}/", True),
        (True, f"{home}/payments", False),
        (False, f"{home}/disputes", False),
        (False, f"{home}/sessions", False),
    ]
    # No page is called "Money", so the group leads to its first page, which is below it as well.
    paths = [path for _, path, _ in links]
    money = paths.index(f"{home}/balance")
    assert links[money : money + 2] == [
        (True, f"{home}/balance", False),
        (False, f"{home}/balance", False),
    ]


def test_only_the_nearest_page_of_the_menu_is_current(shop: Shop) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    for page in ("developers", "developers/keys"):
        links = menu_links(owner.get(f"/dashboard/{shop.id}/{page}").text)
        assert [path for _, path, here in links if here] == [f"/dashboard/{shop.id}/{page}"]


def test_the_menu_shows_only_pages_of_the_persons_role(shop: Shop) -> None:
    developer = create_person(shop.api_server, shop.id, "developer")
    paths = [path for _, path, _ in menu_links(developer.get(f"/dashboard/{shop.id}/").text)]
    assert f"/dashboard/{shop.id}/developers/keys" in paths
    assert f"/dashboard/{shop.id}/balance" not in paths
