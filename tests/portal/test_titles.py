"""Titles of pages show no tags, because browsers show tags in a title as text."""

import re
from html import unescape
from typing import Final

from support.api_server import Shop
from support.people import create_person

_ID: Final = re.compile(r"(?<=/)[a-z]{2,6}_[0-9a-z]{16,}")
_NAME: Final = "Tea & <b>Scones</b>"


def test_no_page_that_the_portals_link_to_has_a_tag_in_its_title(shop: Shop) -> None:
    server = shop.api_server
    server.sql("update merchants set name = $2 where id = $1", shop.id, _NAME)
    order = shop.create_order()["id"]
    payout = shop.create_payout(1100)
    admin = create_person(server, None, staff_role="admin")
    owner = create_person(server, shop.id, "owner")
    titles: dict[str, str] = {}
    console, dashboard = "/console", f"/dashboard/{shop.id}"
    for visitor, root, paths in (
        (admin, console, [
            console, f"{console}/merchants/{shop.id}", f"{console}/payments/{order}",
            f"{console}/payout/{payout.id}", f"{console}/people/{admin.person_id}", "/security",
        ]),
        (owner, dashboard, [f"{dashboard}/", f"{dashboard}/payments/{order}", "/dashboard/mer_x/"]),
    ):  # fmt: skip
        links, patterns = re.compile(f'href="({root}[^"?#.]*)"'), set[str]()
        while paths:
            path = paths.pop()
            response = visitor.get(path, follow_redirects=True)
            for title in re.findall("<title>(.*?)</title>", response.text, re.DOTALL):
                titles[path] = unescape(title)
            for href in links.findall(response.text):
                pattern = _ID.sub("*", href)
                if pattern not in patterns:
                    patterns.add(pattern)
                    paths.append(href)
    merchant_title = titles[f"/console/merchants/{shop.id}"]
    assert merchant_title == f"{_NAME} – Console"
    assert len(titles) > 50
    tags = {
        path: title
        for path, title in titles.items()
        if re.search(r"</?[a-z]+(\s[^>]*)?>", title.replace(_NAME, ""))
    }
    assert tags == {}
