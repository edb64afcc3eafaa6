"""The form on the page of a payment that refunds it."""

import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from typing import Any

import msgspec
import pytest

from dashboard.pages import text_of
from dashboard.payment_pages import hidden_fields, list_refunds, page_path, timeline_titles
from opentill.core.errors import Unavailable
from opentill.portal import form_ids
from support.api_server import Shop
from support.people import PASSWORD, Visitor, create_person, heading_of


def refund_form(visitor: Visitor, shop: Shop, order_id: str, amount: str) -> dict[str, str]:
    """Enter the amount of a refund; return the values of the form that confirms it."""
    page = visitor.get(page_path(shop, order_id, "refund"), params={"amount": amount})
    assert page.status_code == 200, text_of(page)
    return hidden_fields(page, page_path(shop, order_id, "refund")) | {
        "amount": amount,
        "reason": "",
        "why": "",
    }


def test_a_refund_is_quoted_confirmed_and_created_once(shop: Shop) -> None:
    order = shop.create_paid_order(shop.create_product(price="10.00")["id"])
    owner = create_person(shop.api_server, shop.id, "owner")
    confirmation = text_of(
        owner.get(page_path(shop, order["id"], "refund"), params={"amount": "4"})
    )
    for text in (
        "Refund to customer $4.00", "Still refundable $6.00", "From your balance $4.00",
        "The platform fee is not refunded.", "Pending balance $9.60 before, $5.60 after",
    ):  # fmt: skip
        assert text in confirmation, text
    assert list_refunds(shop, order["id"]) == []
    form = refund_form(owner, shop, order["id"], "4") | {"reason": " late "}
    with ThreadPoolExecutor(2) as pool:
        path = page_path(shop, order["id"], "refund")
        responses = list(pool.map(owner.post, [path] * 2, [form] * 2))
    # The same form is sent again.
    responses.append(owner.post(page_path(shop, order["id"], "refund"), form))
    (refund,) = list_refunds(shop, order["id"])
    location = f"{page_path(shop, order['id'])}?refund={refund['id']}"
    assert [(response.status_code, response.headers["location"]) for response in responses] == [
        (303, location)
    ] * 3
    assert (refund["amount"], refund["reason"], refund["status"]) == ("4.00", "late", "PROCESSING")
    page = owner.get(location)
    assert "The refund of $4.00 is on its way." in text_of(page)
    assert "Refund of $4.00: the bank has not confirmed it yet" in timeline_titles(page)
    shop.report_refund(refund["id"])
    assert "The refund of $4.00 is done." in text_of(owner.get(location))
    rows = shop.api_server.sql(
        "select who, subject, reason from audit_log where merchant_id = $1 and action = $2",
        shop.id,
        "orders refund",
    )
    assert rows == [{
        "who": f"{owner.email} ({owner.person_id})", "subject": order["id"],
        "reason": "on the page of a refund",
    }]  # fmt: skip


def test_the_reason_of_a_refund_is_chosen_and_explained(shop: Shop) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    order = shop.create_paid_order(shop.create_product(price="10.00")["id"])
    path = page_path(shop, order["id"], "refund")
    for why, details, reason in (
        ("duplicate", " order 7 ", "Duplicate: order 7"),
        ("requested", "", "Requested by customer"),
        ("other", "broken lid", "broken lid"),
        ("nonsense", "", ""),
    ):
        form = refund_form(owner, shop, order["id"], "1") | {"why": why, "reason": details}
        assert owner.post(path, form).status_code == 303, why
        assert list_refunds(shop, order["id"])[0]["reason"] == reason
    form = refund_form(owner, shop, order["id"], "1") | {"why": "fraudulent", "reason": "x" * 250}
    refusal = owner.post(path, form)
    assert refusal.status_code == 400
    assert '<option value="fraudulent" selected>' in refusal.text


def test_the_dialog_of_a_refund_begins_with_all_that_is_left(shop: Shop) -> None:
    order = shop.create_paid_order(shop.create_product(price="10.00")["id"])
    shop.refund(order["id"], amount="4.01")
    owner = create_person(shop.api_server, shop.id, "owner")
    path = page_path(shop, order["id"], "refund")
    page = owner.get(path)
    assert re.search(r'<input id="amount"[^>]* value="5.99"', page.text)
    text = text_of(page)
    for sentence in (
        "Up to $5.99", "Refund to customer $5.99", "Still refundable $0.00",
        "Arrives Usually within 3 business days, in the bank account",
    ):  # fmt: skip
        assert sentence in text, sentence
    # The payment is behind the dialog, and cannot be used meanwhile.
    assert '<main id="main" tabindex="-1" inert>' in page.text
    form = hidden_fields(page, path) | {"amount": "$5,99"}  # as people write it
    assert owner.post(path, form).status_code == 303
    assert [refund["amount"] for refund in list_refunds(shop, order["id"])] == ["5.99", "4.01"]


def test_a_refund_in_another_tab_makes_the_form_stale(shop: Shop) -> None:
    order = shop.create_paid_order(shop.create_product(price="10.00")["id"])
    owner = create_person(shop.api_server, shop.id, "owner")
    path = page_path(shop, order["id"], "refund")
    form, stale_form = (refund_form(owner, shop, order["id"], "3.00") for _ in range(2))
    assert owner.post(path, form).status_code == 303
    conflict = owner.post(path, stale_form | {"reason": "broken lid"})
    assert conflict.status_code == 409
    assert "Something has changed since this was shown" in text_of(conflict)
    assert "Still refundable $4.00" in text_of(conflict)
    assert 'value="broken lid"' in conflict.text
    assert len(list_refunds(shop, order["id"])) == 1
    # A form that has created a refund cannot create another one, even with changed input.
    assert owner.post(path, form | {"reason": "another"}).status_code == 409
    assert len(list_refunds(shop, order["id"])) == 1
    assert owner.post(path, hidden_fields(conflict, path) | {"amount": "3.00"}).status_code == 303
    assert len(list_refunds(shop, order["id"])) == 2


@pytest.mark.parametrize(
    ("changes", "status", "error"),
    [
        ({"amount": "10.01"}, 400, "You can refund at most $10.00"),
        ({"amount": "0"}, 400, "Enter an amount such as 1.00"),
        ({"amount": "€4.00"}, 400, "This sign or code is of another currency"),
        ({"amount": "4.000"}, 400, "The separator may stand for thousands"),
        ({"amount": "ten"}, 400, "Enter an amount such as 1.00"),
        ({"amount": "4.01"}, 409, "Check the figures of the new amount, then confirm the refund."),
        ({"quoted": ""}, 409, "Check the figures of the new amount, then confirm the refund."),
        ({"reason": "x" * 256}, 400, "Enter a reason of at most 255 characters"),
        ({"seen": "400.600.300.pending"}, 409, "Something has changed"),
        ({"form_id": ""}, 409, "Something has changed"),
    ],
)
def test_each_field_of_a_refund_shows_its_error(
    shop: Shop, changes: dict[str, str], status: int, error: str
) -> None:
    order = shop.create_paid_order(shop.create_product(price="10.00")["id"])
    owner = create_person(shop.api_server, shop.id, "owner")
    form = refund_form(owner, shop, order["id"], "4.00") | {"reason": "kept"} | changes
    refusal = owner.post(page_path(shop, order["id"], "refund"), form)
    assert refusal.status_code == status
    assert error in text_of(refusal)
    assert f'value="{form["amount"]}"' in refusal.text
    assert f'value="{form["reason"]}"' in refusal.text
    assert list_refunds(shop, order["id"]) == []


def test_the_figures_of_another_amount_keep_the_reason(shop: Shop) -> None:
    order = shop.create_paid_order(shop.create_product(price="10.00")["id"])
    owner = create_person(shop.api_server, shop.id, "owner")
    for amount in ("4.00", "40.00"):
        page = owner.get(
            page_path(shop, order["id"], "refund"),
            params={"amount": amount, "reason": "broken lid"},
        )
        assert 'value="broken lid"' in page.text


def test_a_refund_that_is_not_possible_shows_the_reason(shop: Shop) -> None:
    server = shop.api_server
    shop = server.create_shop(overdraft_minor=0)
    order = shop.create_paid_order(shop.create_product(price="10.00")["id"])
    owner = create_person(server, shop.id, "owner")
    too_much = owner.get(page_path(shop, order["id"], "refund"), params={"amount": "10.00"})
    assert too_much.status_code == 400
    assert "The balance is too low for this refund: it may fall to $0.00." in text_of(too_much)
    form = refund_form(owner, shop, order["id"], "9.00")
    shop.refund(order["id"], amount="9.00")
    conflict = owner.post(page_path(shop, order["id"], "refund"), form)
    assert "You can refund at most $1.00" in text_of(conflict)
    unpaid = shop.create_order()["id"]
    page = owner.get(page_path(shop, unpaid, "refund"), params={"amount": "1"})
    assert page.status_code == 409
    assert "This payment cannot be refunded as it stands now" in text_of(page)
    assert "/refund" not in owner.get(page_path(shop, unpaid)).text
    assert owner.get(page_path(shop, unpaid, "receipt")).status_code == 404


def test_a_refund_whose_commit_was_not_confirmed_can_be_submitted_again(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = shop.create_paid_order(shop.create_product(price="10.00")["id"])
    owner = create_person(shop.api_server, shop.id, "owner")
    form = refund_form(owner, shop, order["id"], "4.00")
    run_once = form_ids.run_once

    async def lose_connection(request: Any, work: Any) -> str:
        await run_once(request, work)
        raise Unavailable  # as if the connection had ended before the commit was confirmed

    monkeypatch.setattr(form_ids, "run_once", lose_connection)
    response = owner.post(page_path(shop, order["id"], "refund"), form)
    assert response.status_code == 503
    assert heading_of(response) == "It is not known yet whether the refund was made"
    monkeypatch.undo()
    form = hidden_fields(response, page_path(shop, order["id"], "refund"))
    assert owner.post(page_path(shop, order["id"], "refund"), form).status_code == 303
    assert len(list_refunds(shop, order["id"])) == 1


def test_a_refund_above_the_setting_needs_a_step_up(
    shop: Shop, clock: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    app, order = shop.api_server.app, shop.create_paid_order()
    visitor, path = (
        create_person(shop.api_server, shop.id, "support"),
        page_path(shop, order["id"], "refund"),
    )
    clock(app.clock() + 10 * 60_000)  # a login is proof for ten minutes only
    settings = msgspec.structs.replace(app.settings, refund_proof_above=Decimal("2.00"))
    monkeypatch.setattr(app, "settings", settings)
    form = refund_form(visitor, shop, order["id"], "2.00")
    assert visitor.post(path, form).status_code == 303
    form = refund_form(visitor, shop, order["id"], "2.01")
    assert heading_of(visitor.post(path, form)) == "Confirm that it is you"
    assert len(list_refunds(shop, order["id"])) == 1
    assert visitor.post(path, form | {"proof_password": "wrong"}).status_code == 403
    assert visitor.post(path, form | {"proof_password": PASSWORD}).status_code == 303
    # Repeated after its refund, the form needs no proof.
    assert visitor.post(path, form).status_code == 303
    assert len(list_refunds(shop, order["id"])) == 2
