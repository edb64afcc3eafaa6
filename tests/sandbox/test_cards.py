"""A card is entered on the sandbox bank's page; its number decides the result."""

import re

import pytest

from opentill.sandbox.cards import CardForm, read_card
from support.sandbox_bank import Shop

ACCEPTED_CARD, CARD_WITH_3DS = "4242424242424242", "4000002500003155"


@pytest.mark.parametrize(
    ("number", "status", "code"),
    [
        ("4242 4242 4242 4242", "succeeded", None),
        ("4000000000000002", "declined", "card_declined"),
        ("4000000000009995", "declined", "insufficient_funds"),
        ("4000000000000069", "declined", "expired_card"),
        ("4000000000000127", "declined", "incorrect_cvc"),
        ("4000-0000-0000-9987", "refused", "lost_card"),
        ("4000000000000259", "succeeded", None),
        ("4000000000005126", "succeeded", None),
    ],
)
def test_each_test_card_has_its_result(
    shop: Shop, number: str, status: str, code: str | None
) -> None:
    payment_id = shop.start_payment()
    page = shop.type_card(payment_id, number)
    assert page.url.path == f"/done/{payment_id}"
    payment = shop.find_payment(payment_id)
    assert (payment["status"], payment["decline_code"]) == (status, code)
    callback = shop.receiver.wait_for(payment_id, f"payment.{status}")
    assert callback["data"]["payment"] == payment


def test_a_card_without_a_response_is_processing(slow_bank_shop: Shop) -> None:
    payment_id = slow_bank_shop.start_payment()
    page = slow_bank_shop.type_card(payment_id, "4000000000000119")
    assert "Payment processing" in page.text
    assert slow_bank_shop.find_payment(payment_id)["status"] == "processing"


def test_a_card_without_a_response_is_declined_later(shop: Shop) -> None:
    payment_id = shop.start_payment()
    shop.type_card(payment_id, "4000000000000119")
    callback = shop.receiver.wait_for(payment_id, "payment.declined")
    assert callback["data"]["payment"]["decline_code"] == "processing_error"
    assert sorted(shop.receiver.types(payment_id)) == ["payment.declined", "payment.processing"]


@pytest.mark.parametrize(
    ("decision", "status", "code"),
    [("approve", "succeeded", None), ("decline", "declined", "authentication_failed")],
)
def test_the_3d_secure_page_decides_the_payment(
    shop: Shop, decision: str, status: str, code: str | None
) -> None:
    payment_id = shop.start_payment()
    page = shop.type_card(payment_id, CARD_WITH_3DS)
    assert page.url.path == f"/3ds/{payment_id}"
    assert "3155" in page.text
    assert shop.find_payment(payment_id)["status"] == "action_required"
    assert shop.browser.get(f"/pay/{payment_id}").url.path == f"/3ds/{payment_id}"
    page = shop.browser.post(f"/3ds/{payment_id}", data={"decision": decision})
    assert page.url.path == f"/done/{payment_id}"
    payment = shop.find_payment(payment_id)
    assert (payment["status"], payment["decline_code"]) == (status, code)


def test_a_disputed_card_is_disputed_after_it_paid(shop: Shop) -> None:
    payment_id = shop.create_paid_payment("4000000000000259")
    callback = shop.receiver.wait_for(payment_id, "dispute.opened")
    assert callback["data"]["dispute"]["amount_minor"] == 999


def test_an_unknown_number_is_refused_with_a_message(shop: Shop) -> None:
    payment_id = shop.start_payment()
    page = shop.type_card(payment_id, "4111111111111111")
    assert page.status_code == 422
    assert "not one of the test cards" in page.text
    assert "You have not been charged" in page.text
    assert "4111111111111111" not in page.text
    assert shop.find_payment(payment_id)["status"] == "action_required"


@pytest.mark.parametrize(
    ("form", "invalid_fields"),
    [
        (CardForm(), ["number", "exp", "csc"]),
        (CardForm(ACCEPTED_CARD, "12/34", "123"), []),
        (CardForm(ACCEPTED_CARD, "1234", "1234"), []),
        (CardForm(ACCEPTED_CARD, "12 / 2034", " 123 "), []),
        (CardForm(ACCEPTED_CARD, "11/26", "123"), []),
        (CardForm(ACCEPTED_CARD, "10/26", "123"), ["exp"]),
        (CardForm(ACCEPTED_CARD, "13/30", "123"), ["exp"]),
        (CardForm(ACCEPTED_CARD, "00/30", "123"), ["exp"]),
        (CardForm(ACCEPTED_CARD, "12/99", "123"), ["exp"]),
        (CardForm(ACCEPTED_CARD, "soon", "123"), ["exp"]),
        (CardForm(ACCEPTED_CARD, "12/34", "12"), ["csc"]),
        (CardForm(ACCEPTED_CARD, "12/34", "12345"), ["csc"]),
        (CardForm(ACCEPTED_CARD, "12/34", "١٢٣"), ["csc"]),
        (CardForm("42", "12/34", "123"), ["number"]),
        (CardForm("hello", "12/34", "123"), ["number"]),
    ],
)
def test_each_invalid_field_has_an_error(form: CardForm, invalid_fields: list[str]) -> None:
    card, errors = read_card(form, 2026, 11)
    assert list(errors) == invalid_fields
    assert (card is None) == bool(invalid_fields)


def test_the_card_form_has_the_standard_autocomplete_tokens(shop: Shop) -> None:
    page = shop.browser.get(f"/pay/{shop.start_payment()}").text
    tokens = re.findall(r'autocomplete="([^"]+)"', page)
    assert tokens == ["cc-number", "cc-exp", "cc-csc", "cc-name"]


def test_wrong_fields_are_marked_and_only_a_test_cards_number_is_kept(shop: Shop) -> None:
    page = shop.type_card(shop.start_payment(), ACCEPTED_CARD, exp="13/20", name="Ann <i>")
    assert page.status_code == 422
    assert 'aria-describedby="exp-error"' in page.text
    assert "Ann &lt;i&gt;" in page.text
    form = page.text.partition('<section class="cards">')[0]
    assert 'value="4242 4242 4242 4242"' in form
    assert 'id="csc" name="csc" type="text" autocomplete="cc-csc" value=""' in form
    assert 'id="exp-hint"' not in form


def test_forms_of_a_payment_that_has_ended_change_nothing(shop: Shop) -> None:
    payment_id = shop.start_payment()
    shop.type_card(payment_id, "4000000000000002")
    before = shop.find_payment(payment_id)
    page = shop.type_card(payment_id, ACCEPTED_CARD)
    assert page.url.path == f"/done/{payment_id}"
    assert shop.browser.get(f"/pay/{payment_id}").url.path == f"/done/{payment_id}"
    shop.browser.post(f"/3ds/{payment_id}", data={"decision": "approve"})
    shop.browser.post(f"/phone/{payment_id}", data={"decision": "approve"})
    assert shop.find_payment(payment_id) == before
    assert shop.receiver.wait_for(payment_id, "payment.declined")
    assert shop.receiver.types(payment_id) == ["payment.declined"]


def test_no_card_number_is_stored(shop: Shop, tmp_path_factory: pytest.TempPathFactory) -> None:
    shop.create_paid_payment()
    files = list(tmp_path_factory.getbasetemp().glob("bank*/sandbox.sqlite3*"))
    assert files
    assert not any(ACCEPTED_CARD.encode() in file.read_bytes() for file in files)
