"""The form repeats a payer's input in the payer's browser, but not for others with the link."""

from http.cookies import SimpleCookie
from urllib.parse import urlsplit

import httpx2
import msgspec
import pytest
from starlette.applications import Starlette

from opentill import checkouts, orders
from opentill.checkouts.model import SessionBody
from opentill.db.clock import now_ms
from opentill.gateways.model import PaymentOutcome
from opentill.pages import prefill
from support.page_server import OpenSession

ANN = {"email": "ann@example.com", "name": "Ann Typed", "method": "ALIPAY", "lang": "en"}
BOB = {"email": "bob@example.com", "name": "", "method": "ALIPAY", "lang": "en"}


async def _decline_last_attempt(page_server: Starlette, session: checkouts.Session) -> None:
    """Report that the bank declined the order's last attempt."""

    async def decline(tx: object) -> None:
        attempt = await orders.last_attempt(tx, session.merchant_id, session.order_id)
        assert attempt is not None
        outcome = PaymentOutcome(status="DECLINED", reason="insufficient_funds")
        await orders.apply_outcome(
            tx, session.merchant_id, attempt.id, outcome, now_ms(), gateway=attempt.gateway
        )

    await page_server.state.app.db.run(decline)


async def _open_prefilled(page_server: Starlette, session: checkouts.Session) -> checkouts.Session:
    """Open another session of the same product with the customer's email address and name."""
    body = SessionBody(
        product_id=session.product_id,
        customer_email="known@example.com",
        customer_name="Known To Shop",
    )
    prefilled: checkouts.Session = await page_server.state.app.db.run(
        lambda tx: checkouts.open_session(tx, session.merchant_id, body, now_ms())
    )
    return prefilled


async def test_after_a_decline_only_the_payers_own_browser_shows_the_input_again(
    page_server: Starlette, open_session: OpenSession
) -> None:
    not_prefilled = await open_session()
    prefilled = await _open_prefilled(page_server, not_prefilled)
    for session, email, name in (
        (not_prefilled, "", ""),
        (prefilled, "known@example.com", "Known To Shop"),
    ):
        address = f"{page_server.state.settings.public_url}/checkout/{session.id}"
        async with (
            httpx2.AsyncClient() as ann, httpx2.AsyncClient() as bob, httpx2.AsyncClient() as eve
        ):  # fmt: skip

            async def read_fields(
                client: httpx2.AsyncClient, address: str = address
            ) -> tuple[str, str]:
                text = (await client.get(address)).text
                return tuple(  # type: ignore[return-value]
                    text.partition(f'id="{field}"')[2].partition('value="')[2].partition('"')[0]
                    for field in ("email", "name")
                )

            assert await read_fields(eve) == (email, name)
            response = await ann.post(address, data=ANN)
            assert response.status_code == 303
            # The bank has not decided yet.
            assert await read_fields(ann) == (
                ANN["email"],
                ANN["name"],
            )
            assert await read_fields(eve) == (email, name)
            await _decline_last_attempt(page_server, session)
            assert await read_fields(ann) == (ANN["email"], ANN["name"])
            assert await read_fields(eve) == (email, name)
            forged = {"cookie": f"{prefill.COOKIE}={'0' * 64}"}
            assert "ann@" not in (await eve.get(address, headers=forged)).text.lower()
            # Once another payer has sent the form, nobody sees the first payer's input.
            assert (await bob.post(address, data=BOB)).status_code == 303
            await _decline_last_attempt(page_server, session)
            assert await read_fields(bob) == (BOB["email"], name)
            assert await read_fields(ann) == await read_fields(eve) == (email, name)


@pytest.mark.parametrize("declined", [True, False], ids=["a new attempt", "the same attempt"])
async def test_a_payer_without_a_name_does_not_get_the_name_of_an_earlier_payer(
    page_server: Starlette, open_session: OpenSession, declined: bool
) -> None:
    """The order gets the name that the merchant has prefilled, or none."""
    not_prefilled = await open_session()
    prefilled = await _open_prefilled(page_server, not_prefilled)
    for session, shop_name in ((not_prefilled, None), (prefilled, "Known To Shop")):
        address = f"{page_server.state.settings.public_url}/checkout/{session.id}"
        async with httpx2.AsyncClient() as client:
            for form, name in ((ANN, ANN["name"]), (BOB, shop_name), (ANN, ANN["name"])):
                assert (await client.post(address, data=form)).status_code == 303
                view = await checkouts.find_page_view(page_server.state.app.db, session.id)
                assert view is not None
                order = view.order
                assert (order.customer_email, order.customer_name) == (form["email"], name)
                if declined:
                    await _decline_last_attempt(page_server, session)


async def test_the_cookie_is_limited_to_its_session_and_unreadable_by_scripts(
    page_server: Starlette, open_session: OpenSession
) -> None:
    sessions = [await open_session() for _ in range(2)]
    url = page_server.state.settings.public_url
    first_page = f"{url}/checkout/{sessions[0].id}"
    async with httpx2.AsyncClient() as client:
        responses = [
            await client.post(f"{url}/checkout/{session.id}", data=ANN)
            for session in (*sessions, sessions[0])
        ]
        page = await client.get(first_page)
        refused = await client.post(first_page, data=ANN | {"email": "x"})
    assert "set-cookie" not in page.headers
    assert "set-cookie" not in refused.headers
    lines = [response.headers["set-cookie"] for response in responses]
    cookies = [SimpleCookie(line)[prefill.COOKIE] for line in lines]
    for cookie, session in zip(cookies, sessions, strict=False):
        assert cookie["path"] == urlsplit(f"{url}/checkout/{session.id}").path
        assert cookie["httponly"] is True
        assert cookie["samesite"] == "Lax"
        assert cookie["secure"] == ""  # the public URL of this server is http
        assert 86_000 < int(cookie["max-age"]) <= 86_400
        assert len(cookie.value) >= 43
        assert "ann" not in lines[0].lower()
    assert cookies[0].value != cookies[1].value


@pytest.mark.parametrize(
    ("public_url", "path", "secure"),
    [
        ("http://127.0.0.1:8080", "/checkout/cs_1", False),
        ("https://pay.example.com", "/checkout/cs_1", True),
        ("https://example.com/pay", "/pay/checkout/cs_1", True),
    ],
)
def test_the_cookies_path_and_security_follow_the_public_url(
    public_url: str, path: str, secure: bool
) -> None:
    line = prefill.cookie("k" * 32, public_url, "cs_1", ("a@example.com", "A"), 90_500)
    assert f"; Path={path};" in line
    assert ("; Secure" in line) is secure
    assert "; Max-Age=90;" in line
    assert "; HttpOnly" in line


def test_a_token_depends_on_the_key_the_session_and_the_payers_input() -> None:
    tokens = {
        prefill.token(key, session, email, name)
        for key in ("k" * 32, "l" * 32)
        for session in ("cs_1", "cs_2")
        for email in ("a@example.com", "b@example.com")
        for name in ("", "A")
    }
    assert len(tokens) == 16


@pytest.mark.parametrize(
    "header", ["", "x", "=", ";;;", "opentill_payer", "opentill_payer=", "opentill_payer=\xff",
               "a=b; opentill_payer=zzz; opentill_payer=yyy", "opentill_payer=" + "0" * 5000]
)  # fmt: skip
def test_an_invalid_cookie_proves_nothing(header: str) -> None:
    cookie_value = prefill.token_in({b"cookie": header.encode("latin-1")})
    assert not prefill.proves(cookie_value, "k" * 32, "cs_1", "a@example.com", "")


def test_the_token_is_found_among_other_cookies() -> None:
    token = prefill.token("k" * 32, "cs_1", "a@example.com", "")
    cookie_value = prefill.token_in({b"cookie": f"a=b; {prefill.COOKIE}={token}; c=d".encode()})
    assert prefill.proves(cookie_value, "k" * 32, "cs_1", "a@example.com", "")
    assert not prefill.proves(cookie_value, "k" * 32, "cs_2", "a@example.com", "")
    assert msgspec.json.encode(token)
