"""The menus have the pages that a person may see, in groups."""

import re

from support.api_server import Shop
from support.people import create_person

_MENU = re.compile(r'<nav class="menu".*?</nav>', re.DOTALL)
_LINK = re.compile(r'<a(?: class="(menu-group)")? href="([^"]*)"( aria-current="page")?>')


def menu_of(html: str) -> str:
    """Return the menu of a page."""
    match = _MENU.search(html)
    assert match is not None
    return match[0]


def menu_links(html: str) -> list[tuple[bool, str, bool]]:
    """Return each link of a page's menu: whether it is a group, its path, whether it is current."""
    return [(bool(group), path, bool(here)) for group, path, here in _LINK.findall(menu_of(html))]


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
    for page in ("developers", "developers/keys", "balance", "balance/statement"):
        links = menu_links(owner.get(f"/dashboard/{shop.id}/{page}").text)
        assert [path for _, path, here in links if here] == [f"/dashboard/{shop.id}/{page}"]


def test_only_the_group_of_the_current_page_is_open(shop: Shop) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    for page, opened in (
        ("", ""),
        ("balance", "/balance"),
        ("developers/keys", "/developers/keys"),
    ):
        html = menu_of(owner.get(f"/dashboard/{shop.id}/{page}").text)
        assert len(re.findall("<details", html)) > 4
        groups = re.findall(r"<details open>(.*?)</details>", html, re.DOTALL)
        assert len(groups) == bool(opened)
        assert not opened or f'href="/dashboard/{shop.id}{opened}"' in groups[0]


def test_the_language_is_chosen_in_the_menu_of_the_account(shop: Shop) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    html = owner.get(f"/dashboard/{shop.id}/team").text
    account = html[html.index('class="initials"') : html.index("</header>")]
    assert account.count("?lang=") == html.count("?lang=") == 3
    assert ">AE<" in account  # the initials of Ada Example
    assert "Powered by" not in html


def test_the_menu_shows_only_pages_of_the_persons_role(shop: Shop) -> None:
    developer = create_person(shop.api_server, shop.id, "developer")
    paths = [path for _, path, _ in menu_links(developer.get(f"/dashboard/{shop.id}/").text)]
    assert f"/dashboard/{shop.id}/developers/keys" in paths
    assert f"/dashboard/{shop.id}/balance" not in paths


def test_the_persons_own_pages_have_the_menu_of_their_only_merchant_or_of_the_console(
    shop: Shop,
) -> None:
    viewer = create_person(shop.api_server, shop.id, "viewer")
    shown = menu_links(viewer.get("/security").text)
    home = menu_links(viewer.get(f"/dashboard/{shop.id}/").text)
    assert [link[:2] for link in shown[:-1]] == [link[:2] for link in home]
    assert [path for _, path, here in shown if here] == ["/security"]
    auditor = create_person(shop.api_server, None, staff_role="auditor")
    shown, console = (menu_links(auditor.get(path).text) for path in ("/security", "/console/"))
    assert [link[:2] for link in shown[:-1]] == [link[:2] for link in console]


def test_a_member_of_several_merchants_chooses_one_beside_the_own_pages(shop: Shop) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    other_shop = shop.api_server.create_shop()
    shop.api_server.sql(
        "insert into members (merchant_id, person_id, role, created_at)"
        " values ($1, $2, 'viewer', 0)",
        other_shop.id,
        owner.person_id,
    )
    paths = {path for _, path, _ in menu_links(owner.get("/security").text)}
    assert paths == {f"/dashboard/{shop.id}/", f"/dashboard/{other_shop.id}/", "/security"}
