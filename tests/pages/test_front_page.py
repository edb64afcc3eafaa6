"""The front page of a deployment has working links, such as the one to the login."""

import re

from support.api_server import ApiServer


def test_the_front_page_links_to_the_login_and_no_link_is_broken(api_server: ApiServer) -> None:
    response = api_server.http.get("/")
    assert response.status_code == 200
    links = re.findall(r'<a (?:class="button" )?href="(/[^"]+)"', response.text)
    assert "/login" in links
    assert "/apply" not in links  # applications are switched off
    for link in links:
        assert api_server.http.get(link).status_code == 200, link


def test_the_front_page_is_shown_in_the_readers_language(api_server: ApiServer) -> None:
    page = api_server.http.get("/", headers={"accept-language": "de"})
    assert '<html lang="de"' in page.text
    assert "Zahlungen für Shops" in page.text
    assert 'href="?lang=fr"' in page.text


def test_the_agreement_has_contents_that_lead_to_its_sections(api_server: ApiServer) -> None:
    page = api_server.http.get("/legal/merchant-services-agreement").text
    targets = re.findall(r'<li><a href="#(section-[0-9]+)">', page)
    assert len(targets) > 5
    assert targets == re.findall(r'<h2 id="(section-[0-9]+)">', page)
    assert 'href="/"' in page
