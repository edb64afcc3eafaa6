"""A dispute in words: its reason, the evidence that helps, and accepting or contesting it."""

from concurrent.futures import ThreadPoolExecutor

import httpx2
import pytest

from dashboard.pages import new_form_id, text_of
from dashboard.test_disputes import PDF, upload
from opentill import disputes, orders
from opentill.core.errors import Invalid
from opentill.core.languages import Language, offered
from opentill.db.database import Tx
from opentill.web import dispute_reasons
from support import world
from support.api_server import Shop
from support.people import Visitor, create_person

# https://docs.stripe.com/api/disputes/object#dispute_object-reason
STRIPES_REASONS = {
    "bank_cannot_process", "check_returned", "credit_not_processed", "customer_initiated",
    "debit_not_authorized", "duplicate", "fraudulent", "general", "incorrect_account_details",
    "insufficient_funds", "noncompliant", "product_not_received", "product_unacceptable",
    "subscription_canceled", "unrecognized",
}  # fmt: skip


@pytest.mark.parametrize("language", offered("merchant"))
def test_every_reason_of_stripe_has_a_text_and_evidence(language: Language) -> None:
    assert dispute_reasons.CODES == STRIPES_REASONS
    for explain in (dispute_reasons.text_of, dispute_reasons.name_of):
        texts = {explain(reason, language) for reason in STRIPES_REASONS}
        assert len(texts) == len(STRIPES_REASONS)
        assert not any("_" in text for text in texts)
    assert all(len(dispute_reasons.evidence_for(reason)) >= 4 for reason in STRIPES_REASONS)


def test_a_reason_that_staff_wrote_is_shown_unchanged() -> None:
    for explain in (dispute_reasons.text_of, dispute_reasons.name_of):
        assert explain("letter of the bank", "zh-Hans") == "letter of the bank"
    assert dispute_reasons.evidence_for("letter") == dispute_reasons.evidence_for("general")


def _path(shop: Shop, dispute: disputes.Dispute, *parts: str) -> str:
    return "/".join((f"/dashboard/{shop.id}/disputes", dispute.id, *parts))


def _open(shop: Shop, reason: str = "product_not_received") -> disputes.Dispute:
    order_id, server = shop.create_paid_order()["id"], shop.api_server
    return server.tx(
        lambda tx: disputes.open_manually(
            tx, shop.id, order_id, who="bo", reason=reason, now=server.app.clock()
        )
    )


def test_pages_show_the_reason_in_words_and_the_evidence_that_it_needs(shop: Shop) -> None:
    ada, agent = (
        create_person(shop.api_server, shop.id, "owner"),
        create_person(shop.api_server, None, staff_role="support"),
    )
    dispute = _open(shop)
    page = text_of(ada.get(_path(shop, dispute)))
    assert "The customer says that they did not get the product or service." in page
    assert "Proof of delivery: the carrier, the tracking number" in page
    name, text = "Product not received", "did not get the product"
    for visitor, path, shown in (
        (ada, _path(shop, dispute), text),
        (ada, f"/dashboard/{shop.id}/disputes", name),
        (ada, f"/dashboard/{shop.id}/payments/{dispute.order_id}", text),
        (agent, f"/console/disputes/{dispute.id}", text),
        (agent, "/console/disputes", name),
        (agent, f"/console/payments/{dispute.order_id}", text),
    ):
        response = visitor.get(path)
        assert shown in response.text, path
        assert "product_not_received" not in response.text, path


def test_a_dispute_is_contested_and_may_still_be_accepted(shop: Shop) -> None:
    ada = create_person(shop.api_server, shop.id, "support")
    agent = create_person(shop.api_server, None, staff_role="support")
    dispute = _open(shop)
    path = _path(shop, dispute)
    form = {"response": "CONTESTED", "form_id": new_form_id(ada, path)}
    form["explanation"] = "The parcel arrived on Monday."
    for _ in range(2):  # a double click
        response = ada.post(f"{path}/response", form)
        assert response.headers["location"] == f"{path}?done=CONTESTED"
    page = text_of(ada.get(path))
    assert "You contest the dispute." in page
    assert "Contested: your evidence went to the operator" in page
    assert "Contest the dispute" not in page
    assert "Contested" in text_of(agent.get("/console/disputes?status=UNDER_REVIEW"))
    assert "Not forwarded yet" in text_of(agent.get(f"/console/disputes/{dispute.id}"))
    assert page.count("The parcel arrived on Monday.") == 1
    accepted = ada.post(f"{path}/response", {"response": "ACCEPTED"})
    assert accepted.headers["location"] == f"{path}?done=ACCEPTED"
    page = text_of(ada.get(path))
    assert "You have accepted the dispute." in page
    late = ada.post(f"{path}/response", {"response": "CONTESTED"})
    assert (late.status_code, "somebody has responded" in late.text) == (409, True)
    assert ada.post(f"{path}/response", {"response": "MAYBE"}).status_code == 400
    rows = shop.api_server.sql(
        "select subject from audit_log where merchant_id = $1 and action = 'disputes respond'"
        " order by number",
        shop.id,
    )
    assert [row["subject"] for row in rows] == [
        f"{dispute.id} CONTESTED", f"{dispute.id} ACCEPTED"
    ]  # fmt: skip


def test_contesting_needs_a_file_a_note_or_an_explanation(shop: Shop) -> None:
    ada, server = create_person(shop.api_server, shop.id, "owner"), shop.api_server
    contest = {"response": "CONTESTED"}
    dispute = _open(shop)
    path = _path(shop, dispute)
    server.tx(
        lambda tx: disputes.add_note(
            tx, shop.id, dispute.id, "by the operator", "bo", server.app.clock()
        )
    )
    for explanation, error in (
        ("", "Explain why the customer owes the money, add a file or fill in a field"),
        (" \n", "Explain why the customer owes the money, add a file or fill in a field"),
        ("bell\x07", "Enter plain text of 1 to 5,000 characters"),
    ):
        refusal = ada.post(f"{path}/response", {**contest, "explanation": explanation})
        assert (refusal.status_code, error in refusal.text) == (400, True)
        assert 'id="explanation-error"' in refusal.text
    audited = "select from audit_log where merchant_id = $1 and action = 'disputes respond'"
    assert server.sql(audited, shop.id) == []
    row = shop.data("GET", f"/v1/disputes/{dispute.id}")
    assert [note["note"] for note in row["notes"]] == ["by the operator"]
    assert ada.post(f"{path}/notes", {"note": "Delivered."}).status_code == 303
    assert ada.post(f"{path}/response", contest).status_code == 303
    with_file = _open(shop)
    assert upload(ada, _path(shop, with_file, "evidence"), PDF).status_code == 303
    assert ada.post(_path(shop, with_file, "response"), contest).status_code == 303


def test_of_two_people_who_contest_at_once_only_the_first_is_audited(shop: Shop) -> None:
    people = [create_person(shop.api_server, shop.id, role) for role in ("owner", "support")]
    dispute = _open(shop)
    path = _path(shop, dispute, "response")

    def contest(person: Visitor) -> httpx2.Response:
        return person.post(path, {"response": "CONTESTED", "explanation": "Sent."})

    with ThreadPoolExecutor() as executor:
        responses = list(executor.map(contest, people))
    assert sorted(response.status_code for response in responses) == [303, 409]
    (row,) = shop.api_server.sql(
        "select who from audit_log where merchant_id = $1 and action = 'disputes respond'", shop.id
    )
    first = next(
        person for person, r in zip(people, responses, strict=True) if r.status_code == 303
    )
    assert row["who"] == f"{first.email} ({first.person_id})"


def test_after_the_deadline_a_response_and_files_are_still_taken_with_a_warning(
    shop: Shop,
) -> None:
    ada = create_person(shop.api_server, shop.id, "owner")
    dispute, server = _open(shop), shop.api_server
    assert "The deadline has passed." not in ada.get(_path(shop, dispute)).text
    passed = server.app.clock() - 1000
    server.sql("update disputes set respond_by = $2 where id = $1", dispute.id, passed)
    page = text_of(ada.get(_path(shop, dispute)))
    assert "The deadline has passed. The bank may no longer accept evidence." in page
    assert upload(ada, _path(shop, dispute, "evidence"), PDF).status_code == 303
    response = ada.post(_path(shop, dispute, "response"), {"response": "CONTESTED"})
    assert response.headers["location"] == f"{_path(shop, dispute)}?done=CONTESTED"


def test_a_disputed_payment_leads_to_the_dispute_until_it_is_decided(shop: Shop) -> None:
    server = shop.api_server
    ada = create_person(server, shop.id, "owner")
    dispute = _open(shop)
    payment, home = f"/dashboard/{shop.id}/payments/{dispute.order_id}", f"/dashboard/{shop.id}/"
    day = server.app.clock() + 11 * world.DAY
    server.sql("update disputes set respond_by = $2 where id = $1", dispute.id, day)
    page = ada.get(payment)
    for text in (
        "Dispute needs response: $9.99", "(11 days left)", "A disputed payment cannot be refunded",
        "Respond to the dispute", "Held for the dispute $9.59",
    ):  # fmt: skip
        assert text in text_of(page)
    assert f'href="{_path(shop, dispute)}"' in page.text
    assert "$9.59, the payment less its fees and refunds, stays in Pending" in text_of(page)
    assert "1 dispute needs a response, $24.99 at stake, by " in text_of(ada.get(home))
    assert "Total at stake" in text_of(ada.get(_path(shop, dispute)))
    # Without the permission to see disputes, a person learns only why there is no refund.
    developer = text_of(create_person(server, shop.id, "developer").get(payment))
    assert "Respond to the dispute" not in developer
    response = {"response": "CONTESTED", "explanation": "Delivered."}
    ada.post(_path(shop, dispute, "response"), response)
    page = text_of(ada.get(payment))
    assert ("You have contested it." in page, "Respond to the dispute" in page) == (True, False)
    assert "needs a response" not in text_of(ada.get(home))
    listed = f"/dashboard/{shop.id}/disputes"
    assert "Sent to the operator" in text_of(ada.get(listed))
    server.tx(
        lambda tx: disputes.add_note(
            tx, shop.id, dispute.id, "Which parcel service?", "bo", server.app.clock() + 1
        )
    )
    assert "Sent to the operator" in text_of(ada.get(listed))
    server.tx(
        lambda tx: disputes.record_forwarding(
            tx, shop.id, dispute.id, "by email", server.app.clock() + 1
        )
    )
    page = text_of(ada.get(_path(shop, dispute)))
    for text in (
        "The operator sent your evidence to the bank on ",
        "Your response was sent to the bank",
        "More evidence until",
        "Contested Under review · ",
    ):
        assert text in page, page
    assert "days left" not in page
    page = text_of(ada.get(listed))
    for text in ("Under review", "more evidence until"):
        assert text in page, page
    assert "days left" not in page
    server.tx(
        lambda tx: disputes.decide(
            tx, shop.id, dispute.id, "won", who="bo", reason="evidence", now=server.app.clock()
        )
    )
    page = text_of(ada.get(payment))
    assert "Held for the dispute" not in page
    assert "cannot be refunded" not in page
    page = text_of(ada.get(_path(shop, dispute)))
    assert "if lost" not in page
    assert "Won: the money stays yours" in page


def test_money_of_a_settled_payment_is_held_for_its_dispute(shop: Shop) -> None:
    server = shop.api_server
    order_id = shop.create_paid_order()["id"]
    server.tx(lambda tx: orders.settle_one(tx, shop.id, order_id, server.app.clock(), "op"))
    shop.open_dispute(order_id)
    ada = create_person(server, shop.id, "owner")
    page = text_of(ada.get(f"/dashboard/{shop.id}/payments/{order_id}"))
    assert "Held for the dispute $9.99" in page


async def test_only_an_open_dispute_can_be_responded_to(tx: Tx) -> None:
    order = await world.create_order_in(tx, "PAID")
    dispute = await disputes.open_manually(
        tx, order.merchant_id, order.id, who="bo", reason="letter", now=world.NOW
    )
    ids = (order.merchant_id, dispute.id)
    await disputes.decide(tx, *ids, "won", who="bo", reason="evidence", now=world.NOW)
    with pytest.raises(Invalid, match="dispute must be open"):
        await disputes.respond(tx, *ids, "ACCEPTED", who="ann", now=world.NOW)


def test_the_record_of_the_payment_is_attached_as_a_pdf(shop: Shop) -> None:
    ada = create_person(shop.api_server, shop.id, "support")
    agent = create_person(shop.api_server, None, staff_role="support")
    dispute = _open(shop)
    for visitor, path in (
        (ada, _path(shop, dispute, "payment.pdf")),
        (agent, f"/console/disputes/{dispute.id}/payment.pdf"),
    ):
        response = visitor.get(path, timeout=60)  # a new process draws it
        assert response.headers["content-type"] == "application/pdf"
        assert response.content.startswith(b"%PDF-")
        name = f"payment-{dispute.order_id}.pdf"
        assert f'filename="{name}"' in response.headers["content-disposition"]


def _contest(
    visitor: Visitor, path: str, fields: dict[str, str], **files: bytes
) -> httpx2.Response:
    """Send the form of the page with files, as a browser does."""
    return visitor.http.post(
        f"{path}/response",
        data={"response": "CONTESTED", **fields},
        files={
            name: (f"{name}.pdf", content, "application/pdf") for name, content in files.items()
        },
    )


def test_one_form_contests_with_files_facts_and_an_explanation(shop: Shop) -> None:
    ada = create_person(shop.api_server, shop.id, "owner")
    dispute = _open(shop)
    path = _path(shop, dispute)
    page = ada.get(path).text
    for label in ("Carrier", "Tracking number", "Date of delivery", "Proof of delivery"):
        assert label in page
    assert "Banks rarely decide for a merchant without documents" in page
    form = {
        "form_id": new_form_id(ada, path),
        "carrier": "DHL", "tracking": " 00340 ", "delivered": "2026-11-24",
        "explanation": "She signed for it.",
    }  # fmt: skip
    for _ in range(2):  # a double click
        sent = _contest(ada, path, form, document=PDF, messages=PDF + b"2")
        assert sent.headers["location"] == f"{path}?done=CONTESTED"
    (note,) = shop.data("GET", f"/v1/disputes/{dispute.id}")["notes"]
    assert note["note"] == (
        "Carrier: DHL\nTracking number: 00340\nDate of delivery: 2026-11-24\n"
        "Proof of delivery: document.pdf\nMessages with the customer: messages.pdf\n\n"
        "She signed for it."
    )
    page = text_of(ada.get(path))
    assert "document.pdf Proof of delivery · " in page
    assert "messages.pdf Messages with the customer · " in page
    assert "Your explanation Carrier: DHL Tracking number: 00340" in page
    assert page.count("She signed for it.") == 1  # not among the notes again
    assert "Sent to the operator" in page


def test_a_wrong_fact_or_file_is_shown_at_its_field_and_contests_nothing(shop: Shop) -> None:
    ada = create_person(shop.api_server, shop.id, "owner")
    path = _path(shop, _open(shop))
    for field, fields, files, error in (
        ("carrier", {"carrier": "D\nHL"}, {}, "Enter one line of at most 200 characters"),
        ("delivered", {"delivered": "soon"}, {}, "Enter a date, such as 2026-11-30"),
        ("document", {"explanation": "Sent."}, {"document": b"x"}, "Choose a PDF, PNG or JPEG"),
    ):
        refusal = _contest(ada, path, fields, **files)
        assert refusal.status_code == 400
        assert f'id="{field}-error"' in refusal.text
        assert error in text_of(refusal)
        assert "Sent." not in fields.values() or "Sent.</textarea>" in refusal.text
    assert "Needs response" in text_of(ada.get(path))


def test_a_won_dispute_says_that_its_fee_was_not_charged(shop: Shop) -> None:
    ada, server = create_person(shop.api_server, shop.id, "owner"), shop.api_server
    dispute = _open(shop)
    server.tx(
        lambda tx: disputes.decide(
            tx, shop.id, dispute.id, "won", who="bo", reason="x", now=server.app.clock()
        )
    )
    page = text_of(ada.get(_path(shop, dispute)))
    assert "You won the dispute The bank decided for you on " in page
    assert "You keep $9.99, and the fee of $15.00 was not charged." in page
    assert "None. You keep the payment, and the fee of $15.00 was not charged." in page
    listed = ada.get(f"/dashboard/{shop.id}/disputes")
    assert "Won on " in text_of(listed)
    _open(shop)
    listed = text_of(ada.get(f"/dashboard/{shop.id}/disputes"))
    assert "All 2 Needs response 1 Contested 0 Won 1 Lost 0" in listed
