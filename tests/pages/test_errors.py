"""Error pages outside the API have a language, and a chosen language is remembered."""

import httpx2
import pytest
from starlette.applications import Starlette

from opentill.web import language
from opentill.web.translations import translate
from support.page_server import OpenSession

BROWSER = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
COOKIE_OF_CHOICE = f"{language.COOKIE}=zh-Hant; Path=/; Max-Age=31536000; HttpOnly; SameSite=Lax"

# Each row: method, path, headers, status, whether a browser gets a page.
ERRORS = [
    ("GET", "/nowhere", BROWSER, 404, True),
    ("HEAD", "/nowhere", BROWSER, 404, True),
    ("GET", "/nowhere/at/all.html", BROWSER, 404, True),
    ("GET", "/static/nothing.css", BROWSER, 404, True),
    ("POST", "/docs", BROWSER, 405, True),
    ("GET", "/nowhere", {}, 404, False),
    ("GET", "/nowhere", {"accept": "application/json"}, 404, False),
    ("GET", "/v1/nowhere", BROWSER, 404, False),
    ("GET", "/v1/products", BROWSER, 401, False),
]


async def test_a_browser_gets_an_error_page_and_a_program_the_error_response(
    page_server: Starlette,
) -> None:
    async with httpx2.AsyncClient(base_url=page_server.state.settings.public_url) as client:
        for method, path, headers, status, is_page in ERRORS:
            response = await client.request(method, path, headers=headers)
            assert response.status_code == status, path
            media_type = "text/html; charset=utf-8" if is_page else "application/json"
            assert response.headers["content-type"] == media_type, path
            assert ("content-security-policy" in response.headers) == is_page, path
            assert ("allow" in response.headers) == (status == 405), path
            assert response.headers["x-request-id"].startswith("req_"), path


@pytest.mark.parametrize("tag", ["en", "zh-Hans", "zh-Hant"])
async def test_an_error_page_is_in_the_language_of_the_browser(
    page_server: Starlette, tag: language.Language
) -> None:
    async with httpx2.AsyncClient(base_url=page_server.state.settings.public_url) as client:
        response = await client.get("/nowhere", headers={**BROWSER, "accept-language": tag})
    assert f'<html lang="{tag}"' in response.text
    assert translate("customer", tag, "We cannot find this page") in response.text
    assert translate("customer", tag, "Test mode – no real money") in response.text


async def test_a_chosen_language_is_remembered_on_every_page(
    page_server: Starlette, open_session: OpenSession
) -> None:
    url = page_server.state.settings.public_url
    address = f"{url}/checkout/{(await open_session()).id}"
    english = {"accept-language": "en-GB"}
    async with httpx2.AsyncClient(headers=english) as client:
        # No choice, the same language, and an unknown language change nothing.
        for query in ("", "?lang=en", "?lang=xx"):
            response = await client.get(f"{address}{query}")
            assert "set-cookie" not in response.headers, query
        response = await client.get(f"{address}?lang=zh-Hant")
        assert response.headers["set-cookie"] == COOKIE_OF_CHOICE
        for path in (address, f"{url}/nowhere", f"{address}?lang=xx"):
            response = await client.get(path, headers=BROWSER)
            assert '<html lang="zh-Hant"' in response.text, path
            assert "set-cookie" not in response.headers, path
        response = await client.get(f"{url}/nowhere?lang=en", headers=BROWSER)
        assert '<html lang="en"' in response.text
        assert '<html lang="en"' in (await client.get(address)).text
    async with httpx2.AsyncClient(headers=english) as client:
        client.cookies.set(language.COOKIE, "x" * 3000)
        assert '<html lang="en"' in (await client.get(address)).text
