"""The front page of a deployment has working links, such as the one to the login."""

import re

from support.api_server import ApiServer


def test_the_front_page_links_to_the_login_and_no_link_is_broken(api_server: ApiServer) -> None:
    response = api_server.http.get("/")
    assert response.status_code == 200
    links = re.findall(r'<a (?:class="button" )?href="(/[^"]+)"', response.text)
    assert "/login" in links
    for link in links:
        assert api_server.http.get(link).status_code == 200, link
