"""Paying by card through the bank's forms."""

import re

import pytest

from opentill.sandbox.cards import CardForm, read_card
from support.sandbox_bank import Shop

PAYS, CHALLENGED = "4242424242424242", "4000002500003155"


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
    news = shop.receiver.wait_for(payment_id, f"payment.{status}")
    assert news["data"]["payment"] == payment


def test_a_card_without_a_response_is_processing(slow_bank_shop: Shop) -> None:
    payment_id = slow_bank_shop.start_payment()
    page = slow_bank_shop.type_card(payment_id, "4000000000000119")
    assert "No response yet" in page.text
    assert slow_bank_shop.find_payment(payment_id)["status"] == "processing"


def test_a_card_without_a_response_is_declined_later(shop: Shop) -> None:
    payment_id = shop.start_payment()
    shop.type_card(payment_id, "4000000000000119")
    news = shop.receiver.wait_for(payment_id, "payment.declined")
    assert news["data"]["payment"]["decline_code"] == "processing_error"
    assert sorted(shop.receiver.types(payment_id)) == ["payment.declined", "payment.processing"]


@pytest.mark.parametrize(
    ("decision", "status", "code"),
    [("approve", "succeeded", None), ("decline", "declined", "authentication_failed")],
)
def test_a_3d_secure_step_decides(shop: Shop, decision: str, status: str, code: str | None) -> None:
    payment_id = shop.start_payment()
    page = shop.type_card(payment_id, CHALLENGED)
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
    news = shop.receiver.wait_for(payment_id, "dispute.opened")
    assert news["data"]["dispute"]["amount_minor"] == 999


def test_an_unknown_number_is_refused_with_a_message(shop: Shop) -> None:
    payment_id = shop.start_payment()
    page = shop.type_card(payment_id, "4111111111111111")
    assert page.status_code == 422
    assert "not one of the test cards" in page.text
    assert "nothing was charged" in page.text
    assert "4111111111111111" not in page.text
    assert shop.find_payment(payment_id)["status"] == "action_required"


@pytest.mark.parametrize(
    ("form", "wrong"),
    [
        (CardForm(), ["number", "exp", "csc"]),
        (CardForm(PAYS, "12/34", "123"), []),
        (CardForm(PAYS, "1234", "1234"), []),
        (CardForm(PAYS, "12 / 2034", " 123 "), []),
        (CardForm(PAYS, "11/26", "123"), []),
        (CardForm(PAYS, "10/26", "123"), ["exp"]),
        (CardForm(PAYS, "13/30", "123"), ["exp"]),
        (CardForm(PAYS, "00/30", "123"), ["exp"]),
        (CardForm(PAYS, "12/99", "123"), ["exp"]),
        (CardForm(PAYS, "soon", "123"), ["exp"]),
        (CardForm(PAYS, "12/34", "12"), ["csc"]),
        (CardForm(PAYS, "12/34", "12345"), ["csc"]),
        (CardForm(PAYS, "12/34", "١٢٣"), ["csc"]),
        (CardForm("42", "12/34", "123"), ["number"]),
        (CardForm("hello", "12/34", "123"), ["number"]),
    ],
)
def test_each_wrong_field_has_its_own_message(form: CardForm, wrong: list[str]) -> None:
    card, errors = read_card(form, 2026, 11)
    assert list(errors) == wrong
    assert (card is None) == bool(wrong)


def test_the_card_form_carries_the_standard_autocomplete_tokens(shop: Shop) -> None:
    page = shop.browser.get(f"/pay/{shop.start_payment()}").text
    tokens = re.findall(r'autocomplete="([^"]+)"', page)
    assert tokens == ["cc-number", "cc-exp", "cc-csc", "cc-name"]


def test_wrong_fields_are_marked_and_the_number_is_not_repeated(shop: Shop) -> None:
    page = shop.type_card(shop.start_payment(), PAYS, exp="13/20", name="Ann <i>")
    assert page.status_code == 422
    assert 'aria-describedby="exp-hint exp-error"' in page.text
    assert "Ann &lt;i&gt;" in page.text
    assert PAYS not in page.text


def test_posting_twice_and_going_back_change_nothing(shop: Shop) -> None:
    payment_id = shop.start_payment()
    shop.type_card(payment_id, "4000000000000002")
    before = shop.find_payment(payment_id)
    page = shop.type_card(payment_id, PAYS)
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
    assert not any(PAYS.encode() in file.read_bytes() for file in files)
