"""The front page of a deployment has working links, such as the one to the login."""

import re

from dashboard.pages import text_of
from opentill.core.settings import Settings
from opentill.pages import site
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


def test_the_front_page_names_the_operator_and_the_methods_of_its_gateways(
    api_server: ApiServer,
) -> None:
    page = text_of(api_server.http.get("/"))
    settings = api_server.app.settings
    assert f"{settings.operator_name} {settings.operator_address}" in page
    pay_with = page.partition("How your customers pay")[2].partition("What your shop gets")[0]
    assert pay_with.split() == [
        "Card", "Alipay", "WeChat", "Pay", "PayNow", "Cryptocurrency", "Bank", "transfer",
    ]  # fmt: skip
    assert settings.operator_contact not in page  # it is the example, which reaches nobody


def test_the_contact_of_the_operator_is_a_link_if_it_is_an_address() -> None:
    def url_of(contact: str) -> str:
        return site.operator_of(Settings(operator_contact=contact)).contact_url

    assert url_of("help@tills.example") == "mailto:help@tills.example"
    assert url_of("https://tills.example/help") == "https://tills.example/help"
    assert url_of("+49 30 123") == ""
