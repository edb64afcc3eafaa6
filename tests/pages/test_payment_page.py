"""The payment page checks its form and responds to every request with a page."""

import asyncio
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
from starlette.applications import Starlette

from opentill import checkouts
from opentill.core.settings import Settings
from opentill.pages.model import METHODS
from opentill.web import assets
from support.api_server import ApiServer, Shop
from support.page_server import OpenSession, running, session_opener


def _url(page_server: Starlette, session: checkouts.Session) -> str:
    return f"{page_server.state.settings.public_url}/checkout/{session.id}"


FORM = {"email": "maria@example.com", "name": "", "method": "CREDIT_CARD", "lang": "en"}
FORM_TYPE = "application/x-www-form-urlencoded"

# Each row: headers, form, status.
POSTS = [
    ({}, FORM, 303),
    ({"sec-fetch-site": "same-origin"}, FORM, 303),
    ({"sec-fetch-site": "none"}, FORM, 303),
    ({"sec-fetch-site": "cross-site"}, FORM, 403),
    ({"sec-fetch-site": "same-site"}, FORM, 403),
    ({"origin": "https://evil.example"}, FORM, 403),
    ({"origin": "null"}, FORM, 403),
    ({"content-type": "text/plain"}, FORM, 415),
    ({"content-type": "multipart/form-data"}, FORM, 415),
    ({}, {**FORM, "email": ""}, 400),
    ({}, {**FORM, "email": "a\x00@b.example"}, 400),
    ({}, {**FORM, "name": "x" * 201}, 400),
    ({}, {**FORM, "name": "a\x00b"}, 400),
    ({}, {**FORM, "method": "CASH"}, 400),
    ({}, {**FORM, "method": "PAYNOW"}, 400),
    ({}, {**FORM, "email": "x" * 70_000}, 413),
    ({}, {f"f{number}": "" for number in range(100)}, 400),
    ({}, {}, 400),
]


async def test_the_form_is_accepted_only_from_our_own_page_and_with_valid_fields(
    page_server: Starlette, open_session: OpenSession
) -> None:
    address = _url(page_server, await open_session())
    async with httpx2.AsyncClient() as client:
        for headers, form, status in POSTS:
            all_headers = {"content-type": FORM_TYPE, **headers}
            response = await client.post(address, data=form, headers=all_headers)
            row = (headers, str(form)[:80])
            assert response.status_code == status, row
            if status == 303:
                next_page = f"{urlsplit(address).path}/continue/att_"
                assert response.headers["location"].startswith(next_page), row
            else:
                assert response.headers["content-type"] == "text/html; charset=utf-8", row
                assert "<h1>" in response.text, row
            assert response.headers["cache-control"] == "no-store", row


async def test_concurrent_copies_of_the_form_start_one_payment(
    page_server: Starlette, open_session: OpenSession
) -> None:
    session = await open_session()
    async with httpx2.AsyncClient() as client:
        responses = await asyncio.gather(
            *(client.post(_url(page_server, session), data=FORM) for _ in range(5))
        )
    assert {response.status_code for response in responses} == {303}
    async with page_server.state.app.db.connection() as tx:
        attempts = "select count(*) from payment_attempts where merchant_id = $1"
        assert await tx.fetchval(attempts, session.merchant_id) == 1


# Each row: method, path, status.
PATHS = [
    ("GET", "/checkout", 404),
    ("GET", "/checkout/", 404),
    ("GET", "/checkout/x", 404),
    ("GET", "/checkout/{id}/nothing", 404),
    ("GET", "/checkout/{id}/continue/att_00000000000000000000000000", 303),
    ("GET", "/checkout/{id}/return/att_00000000000000000000000000", 404),
    ("GET", "/checkout/{id}/qr/att_00000000000000000000000000.svg", 404),
    ("GET", "/checkout/%00", 404),
    ("GET", "/checkout/{id}?n=%FF&lang=%00&n=x", 200),
    ("GET", "/checkout/{id}?n=" + "9" * 5000, 200),
    ("HEAD", "/checkout/{id}", 200),
    ("PUT", "/checkout/{id}", 405),
    ("DELETE", "/checkout/{id}/return/att_00000000000000000000000000", 405),
    ("POST", "/checkout/cs_00000000000000000000000000000000", 404),
]


async def test_every_response_below_checkout_is_a_page(
    page_server: Starlette, open_session: OpenSession
) -> None:
    session = await open_session()
    url = page_server.state.settings.public_url
    async with httpx2.AsyncClient() as client:
        for method, path, status in PATHS:
            response = await client.request(
                method,
                url + path.replace("{id}", session.id),
                content=b"a=b" if method == "POST" else None,
                headers={"content-type": FORM_TYPE},
            )
            assert response.status_code == status, path
            assert status == 303 or response.headers["content-type"].startswith("text/html"), path
            assert ("allow" in response.headers) == (status == 405), path
            assert len(response.headers.get_list("x-content-type-options")) == 1, path


async def test_a_customer_is_asked_to_wait_while_the_database_is_unavailable(
    settings: Settings, tmp_path: Path
) -> None:
    async with running(settings, tmp_path / "bank") as server, httpx2.AsyncClient() as client:
        address = _url(server, await (await session_opener(server))())
        await server.state.app.db.close()
        response = await client.get(address, headers={"accept-language": "zh-CN"})
    assert response.status_code == 503
    assert "retry-after" in response.headers
    assert "服务即将恢复" in response.text


async def test_the_form_lists_the_methods_of_the_gateways(
    page_server: Starlette, open_session: OpenSession
) -> None:
    session = await open_session()
    async with httpx2.AsyncClient() as client:
        response = await client.get(_url(page_server, session))
    offered = [method for method in METHODS if f'value="{method}"' in response.text]
    assert offered == ["CREDIT_CARD", "ALIPAY", "WECHAT_PAY", "CRYPTO", "BANK_TRANSFER"]


async def test_static_files_are_cached_for_a_year_by_their_version(page_server: Starlette) -> None:
    url = page_server.state.settings.public_url
    async with httpx2.AsyncClient() as client:
        versioned = await client.get(url + assets.address("pages.css"))
        unversioned = await client.get(f"{url}/static/pages.css")
        stale = await client.get(f"{url}/static/pages.css?v=0")
        missing = await client.get(f"{url}/static/../../pyproject.toml")
    assert "immutable" in versioned.headers["cache-control"]
    assert unversioned.headers["cache-control"] == stale.headers["cache-control"] == "no-cache"
    assert missing.status_code == 404
    assert missing.json()["code"] == 40401


async def test_the_payment_page_shows_a_qr_code_that_this_server_draws(
    page_server: Starlette, open_session: OpenSession
) -> None:
    session = await open_session()
    address = _url(page_server, session)
    async with httpx2.AsyncClient() as client:
        form_response = await client.post(
            address, data={**FORM, "method": "ALIPAY", "lang": "zh-Hans"}
        )
        async with page_server.state.app.db.connection() as tx:
            await tx.execute(
                "update payment_attempts set action_url = '', qr_text = 'https://qr.example'"
                " where merchant_id = $1",
                session.merchant_id,
            )
        qr_page_url = (
            urlsplit(address)._replace(path="").geturl() + form_response.headers["location"]
        )
        qr_page = await client.get(qr_page_url)
        attempt = form_response.headers["location"].rpartition("/")[2].partition("?")[0]
        qr_code = await client.get(f"{address}/qr/{attempt}.svg")
        async with page_server.state.app.db.connection() as tx:
            await tx.execute(
                "update payment_attempts set qr_text = repeat('x', 4000) where merchant_id = $1",
                session.merchant_id,
            )
        too_long = await client.get(f"{address}/qr/{attempt}.svg")
        return_response = await client.get(f"{address}/return/{attempt}?lang=zh-Hans")
    assert "扫码支付" in qr_page.text
    assert f'src="/checkout/{session.id}/qr/{attempt}.svg"' in qr_page.text
    assert qr_code.headers["content-type"] == "image/svg+xml"
    assert qr_code.content.startswith(b"<?xml")
    assert "script" not in qr_code.text
    assert too_long.status_code == 404
    assert (return_response.status_code, return_response.headers["location"]) == (
        303,
        f"/checkout/{session.id}?lang=zh-Hans&returned=1",
    )


async def test_public_pages_have_a_strict_content_security_policy_and_accept_only_get(
    page_server: Starlette,
) -> None:
    url = page_server.state.settings.public_url
    async with httpx2.AsyncClient() as client:
        for path in ("/", "/docs", "/legal/merchant-services-agreement"):
            response = await client.get(url + path)
            assert response.status_code == 200, path
            policy = response.headers["content-security-policy"]
            assert policy.startswith("default-src 'none'"), path
            assert "unsafe" not in policy, path
            assert page_server.state.settings.sandbox_secret not in response.text, path
            assert "Test mode – no real money" in response.text, path
            assert (await client.post(url + path)).json()["code"] == 40501, path


async def test_the_bank_uses_the_language_of_the_payment_page(
    page_server: Starlette, open_session: OpenSession
) -> None:
    for language in ("zh-Hans", "zh-Hant", "en"):
        address = _url(page_server, await open_session())
        async with httpx2.AsyncClient() as client:
            form_response = await client.post(address, data={**FORM, "lang": language})
            attempt = form_response.headers["location"].rpartition("/")[2].partition("?")[0]
            async with page_server.state.app.db.connection() as tx:
                bank_url = await tx.fetchval(
                    "select action_url from payment_attempts where id = $1", attempt
                )
            page = await client.get(bank_url, headers={"accept-language": "fr, de"})
        assert f'<html lang="{language}">' in page.text


def test_a_form_with_a_malformed_origin_is_refused(api_server: ApiServer, shop: Shop) -> None:
    form = {"email": "ann@example.com", "method": "CREDIT_CARD"}
    headers = {"origin": "http://[::1"}
    response = api_server.http.post(shop.create_session()["url"], data=form, headers=headers)
    assert response.status_code == 403
