"""Wallets and transfers are approved on the bank's pages, all of which follow the same rules."""

import pytest

from support.sandbox_bank import Shop

WALLETS = ["ALIPAY", "WECHAT_PAY", "PAYNOW", "CRYPTO"]


@pytest.mark.parametrize("method", WALLETS)
def test_a_wallet_shows_a_qr_code_and_pays_when_the_phone_approves(shop: Shop, method: str) -> None:
    payment_id = shop.start_payment(method=method)
    assert shop.find_payment(payment_id)["qr_text"] == f"{shop.bank_url}/phone/{payment_id}"
    page = shop.browser.get(f"/pay/{payment_id}")
    assert '<meta http-equiv="refresh" content="3">' in page.text
    image = shop.browser.get(f"/pay/{payment_id}/qr.svg")
    assert image.headers["content-type"] == "image/svg+xml"
    assert "<svg" in image.text
    assert "Approve" in shop.browser.get(f"/phone/{payment_id}").text
    phone = shop.browser.post(f"/phone/{payment_id}", data={"decision": "approve"})
    assert "Payment approved" in phone.text
    assert shop.browser.get(f"/pay/{payment_id}").url.path == f"/done/{payment_id}"
    assert shop.receiver.wait_for(payment_id, "payment.succeeded")


@pytest.mark.parametrize(
    ("method", "page", "code"),
    [("ALIPAY", "phone", "customer_declined"), ("BANK_TRANSFER", "transfer", "transfer_rejected")],
)
def test_a_customer_can_decline_a_wallet_payment_or_transfer(
    shop: Shop, method: str, page: str, code: str
) -> None:
    payment_id = shop.start_payment(method=method)
    shop.browser.post(f"/{page}/{payment_id}", data={"decision": "decline"})
    assert shop.find_payment(payment_id)["decline_code"] == code


def test_a_bank_transfer_is_confirmed_on_its_page(shop: Shop) -> None:
    payment_id = shop.start_payment(method="BANK_TRANSFER")
    assert "Confirm your transfer" in shop.browser.get(f"/pay/{payment_id}").text
    page = shop.browser.post(f"/transfer/{payment_id}", data={"decision": "approve"})
    assert page.url.path == f"/done/{payment_id}"
    assert shop.find_payment(payment_id)["status"] == "succeeded"


def test_a_card_cannot_be_approved_on_the_phone(shop: Shop) -> None:
    payment_id = shop.start_payment()
    shop.browser.post(f"/phone/{payment_id}", data={"decision": "approve"})
    assert shop.find_payment(payment_id)["status"] == "action_required"


def test_the_customer_returns_to_the_shop_by_a_link_or_refresh(shop: Shop) -> None:
    payment_id = shop.start_payment()
    form = {"number": "4242424242424242", "exp": "12/34", "csc": "123"}
    response = shop.browser.post(f"/pay/{payment_id}", data=form, follow_redirects=False)
    assert (response.status_code, response.headers["location"]) == (303, f"/done/{payment_id}")
    page = shop.browser.get(f"/done/{payment_id}").text
    back = "http://shop.example/back?a=1&amp;b=2"
    assert f'<meta http-equiv="refresh" content="1;url={back}">' in page
    assert f'href="{back}"' in page


def test_the_cancel_link_changes_nothing(shop: Shop) -> None:
    for method in ("CREDIT_CARD", "ALIPAY", "BANK_TRANSFER"):
        payment_id = shop.start_payment(method=method)
        page = shop.browser.get(f"/pay/{payment_id}").text
        assert '<a href="http://shop.example/back?a=1&amp;b=2" rel="noreferrer">Cancel' in page
        assert shop.find_payment(payment_id)["status"] == "action_required"


def test_every_page_says_test_mode_and_has_a_strict_content_security_policy(shop: Shop) -> None:
    payment_id = shop.start_payment(method="ALIPAY")
    for path in ("/", f"/pay/{payment_id}", f"/phone/{payment_id}", "/pay/none"):
        page = shop.browser.get(path)
        assert "test mode, no real money" in page.text
        policy = page.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe-inline" not in policy
        assert "frame-ancestors 'none'" in policy
        assert page.headers["cache-control"] == "no-store"
        assert not any(
            markup in page.text for markup in ("<script", "<style", " style=", " onclick=")
        )


def test_text_from_the_shop_is_escaped(shop: Shop) -> None:
    page = shop.browser.get(
        f"/pay/{shop.start_payment(description='<script>alert(1)</script>')}"
    ).text
    assert "<script>" not in page
    assert "Mugs &amp; &lt;b&gt;More&lt;/b&gt;" in page


@pytest.mark.parametrize(
    ("amount_minor", "currency", "locale", "expected"),
    [
        (123450, "EUR", "en", "€1,234.50"),
        (1050, "JPY", "en", "¥1,050"),
        (12345, "KWD", "en", "KWD 12.345"),
        (999, "HKD", "zh-HK", "HK$9.99"),
        (999, "EUR", "de-DE", "9,99 €"),
        (999, "USD", "no such language", "$9.99"),
    ],
)
def test_amounts_have_the_decimals_of_their_currency(
    shop: Shop, amount_minor: int, currency: str, locale: str, expected: str
) -> None:
    payment_id = shop.start_payment(amount_minor=amount_minor, currency=currency, locale=locale)
    page = shop.browser.get(f"/pay/{payment_id}").text.replace("\N{NO-BREAK SPACE}", " ")
    assert expected in page


@pytest.mark.parametrize("path", ["/pay/none", "/3ds/none", "/phone/none", "/done/none"])
def test_an_unknown_payment_has_a_page_with_status_404(shop: Shop, path: str) -> None:
    page = shop.browser.get(path)
    assert page.status_code == 404
    assert "The sandbox bank has no such payment" in page.text


def test_a_form_without_a_decision_gets_a_page_with_status_400(shop: Shop) -> None:
    page = shop.browser.post(
        f"/phone/{shop.start_payment(method='ALIPAY')}", data={"decision": "x"}
    )
    assert page.status_code == 400
    assert "<h1>Something went wrong</h1>" in page.text


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [("PUT", "/pay/none", "GET, HEAD, POST"), ("POST", "/done/none", "GET, HEAD")],
)
def test_a_405_lists_the_allowed_methods(shop: Shop, method: str, path: str, allow: str) -> None:
    page = shop.browser.request(method, path)
    assert (page.status_code, page.headers["allow"]) == (405, allow)
    assert "<h1>Something went wrong</h1>" in page.text


def test_a_chosen_test_card_fills_in_the_form(shop: Shop) -> None:
    path = f"/pay/{shop.start_payment()}"
    page = shop.browser.get(path).text
    assert f'{path}?card=4000000000000002"' in page
    filled = shop.browser.get(f"{path}?card=4000000000000002").text
    assert 'value="4000 0000 0000 0002"' in filled
    assert 'value="123"' in filled
    assert 'value="4111' not in shop.browser.get(f"{path}?card=4111111111111111").text
