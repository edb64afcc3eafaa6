"""The evidence on the page of a dispute: files are removable until it is contested."""

import re
from collections.abc import Callable

from dashboard.pages import text_of
from dashboard.test_disputes import PDF, decide, open_dispute, page_path, upload
from opentill import disputes
from support.api_server import Shop
from support.people import create_person


def _remove_path(html: str) -> str:
    (path,) = re.findall(r'action="([^"]+/remove)"', html)
    return str(path)


def test_a_file_is_removed_by_a_button_until_the_dispute_is_contested(shop: Shop) -> None:
    ada = create_person(shop.api_server, shop.id, "support")
    path = page_path(shop, open_dispute(shop).id)
    assert upload(ada, f"{path}/evidence", PDF, "wrong.pdf").status_code == 303
    page = ada.get(f"{path}?done=file")
    assert "Nothing is sent to the bank before you contest the dispute." in text_of(page)
    remove = _remove_path(page.text)
    viewer = create_person(shop.api_server, shop.id, "viewer")
    assert "/remove" not in viewer.get(path).text
    assert viewer.post(remove, {}).status_code == 403
    for _ in range(2):  # a double click
        removed = ada.post(remove, {})
        assert (removed.status_code, removed.headers["location"]) == (303, f"{path}?done=removed")
    page = ada.get(f"{path}?done=removed")
    assert "The file is removed. " in text_of(page)
    assert "wrong.pdf" not in page.text
    upload(ada, f"{path}/evidence", PDF, "right.pdf")
    page = ada.get(path)
    assert "right.pdf" in text_of(page.text.partition('id="contest"')[0])
    assert "Banks rarely decide" not in page.text
    remove = _remove_path(page.text)
    ada.post(f"{path}/response", {"response": "CONTESTED"})
    page = ada.get(path)
    assert "/remove" not in page.text
    refusal = ada.post(remove, {})
    assert refusal.status_code == 409
    assert "The file was not removed" in text_of(refusal)
    late = upload(ada, f"{path}/evidence", PDF + b"2")
    assert late.headers["location"] == f"{path}?done=late-file"


def test_after_a_wrong_file_the_actions_stay_and_a_message_stands_on_top(shop: Shop) -> None:
    ada = create_person(shop.api_server, shop.id, "owner")
    path = page_path(shop, open_dispute(shop).id)
    refusal = upload(ada, f"{path}/evidence", b"no PDF")
    head, _, _ = refusal.text.partition('class="facts"')
    assert 'href="#contest"' in head
    assert 'popovertarget="accept"' in head
    assert 'role="alert"' in head
    assert "this one has other content" in text_of(head)


def test_an_accepted_dispute_asks_for_nothing_and_the_payment_tells_it(shop: Shop) -> None:
    ada = create_person(shop.api_server, shop.id, "owner")
    dispute = open_dispute(shop)
    path, now = page_path(shop, dispute.id), shop.api_server.app.clock()
    shop.api_server.tx(
        lambda tx: disputes.set_deadline(tx, shop.id, dispute.id, now + 86_400_000, now)
    )
    ada.post(f"{path}/response", {"response": "ACCEPTED"})
    page = text_of(ada.get(path))
    assert "Will be taken from your balance $24.99" in page
    assert "None so far. $24.99 is taken when the bank closes the dispute." in page
    for text in ("Deadline", "Add a file", "Recommended evidence", "while the dispute is open"):
        assert text not in page
    payment = text_of(ada.get(f"/dashboard/{shop.id}/payments/{dispute.order_id}"))
    assert "Dispute of $9.99 accepted by Ada Example" in payment
    assert upload(ada, f"{path}/evidence", PDF).status_code == 400


def test_a_forwarded_response_confirms_the_evidence(
    shop: Shop, clock: Callable[[int], None]
) -> None:
    ada = create_person(shop.api_server, shop.id, "owner")
    dispute = open_dispute(shop)
    path, server = page_path(shop, dispute.id), shop.api_server
    ada.post(f"{path}/response", {"response": "CONTESTED", "explanation": "Delivered."})
    assert "has not confirmed that yet" in text_of(ada.get(path))
    payment = text_of(ada.get(f"/dashboard/{shop.id}/payments/{dispute.order_id}"))
    assert "Dispute of $9.99 contested by Ada Example" in payment
    server.tx(
        lambda tx: disputes.record_forwarding(
            tx, shop.id, dispute.id, "by email", server.app.clock()
        )
    )
    payment = text_of(ada.get(f"/dashboard/{shop.id}/payments/{dispute.order_id}"))
    assert "Your response was sent to the bank" in payment
    page = text_of(ada.get(path))
    assert "The operator sent your evidence to the bank on" in page
    assert "has not confirmed" not in page
    # A file that is added later waits for the operator again.
    clock(server.app.clock() + 60_000)
    upload(ada, f"{path}/evidence", PDF)
    assert "has not confirmed that yet" in text_of(ada.get(path))


def test_the_list_shows_how_many_to_respond_to_and_what_is_at_stake(shop: Shop) -> None:
    ada = create_person(shop.api_server, shop.id, "viewer")
    first, second = open_dispute(shop), open_dispute(shop)
    now = shop.api_server.app.clock()
    shop.api_server.tx(
        lambda tx: disputes.set_deadline(tx, shop.id, first.id, now + 86_400_000, now)
    )
    page = text_of(ada.get(page_path(shop)))
    assert "Needs response 2 first by " in page
    assert "At stake $49.98 to respond and contested, with the dispute fees" in page
    assert "Disputes this month 2 2 open, 0 won, 0 lost" in page
    for dispute, response in ((first, "CONTESTED"), (second, "ACCEPTED")):
        shop.api_server.tx(
            lambda tx, id_=dispute.id, response=response: disputes.respond(
                tx, shop.id, id_, response, who="ann", now=now
            )
        )
    decide(shop, second, "lost")
    page = text_of(ada.get(page_path(shop)))
    assert "At stake $24.99 to respond and contested" in page
    assert "Disputes this month 2 1 open, 0 won, 1 lost" in page


def test_a_lost_dispute_is_explained_on_the_payment_and_nothing_was_attached(shop: Shop) -> None:
    ada = create_person(shop.api_server, shop.id, "owner")
    dispute = open_dispute(shop)
    path = page_path(shop, dispute.id)
    html = ada.get(path).text
    assert "Attached automatically" in html
    # Enter in a field sends nothing; a dialog asks before the response is sent.
    form = html.partition('<form class="contest"')[2].partition("</form>")[0]
    buttons = re.findall(r"<button[^>]*>", form)
    assert buttons[0] == '<button type="submit" disabled hidden>'
    # The kind of what was sold decides about the fields, without a script.
    assert "What was sold?" in html
    assert all(f'<div class="field of-{kind}">' in form for kind in ("goods", "service"))
    assert 'popovertarget="submit-response"' in buttons[1]
    assert "Contest the dispute?" in text_of(form)
    decide(shop, dispute, "lost")
    assert "Attached automatically" not in ada.get(path).text
    page = ada.get(f"/dashboard/{shop.id}/payments/{dispute.order_id}")
    text = text_of(page)
    assert "Dispute lost The bank decided for the customer on" in text
    assert "$24.99 was taken from your balance: $9.99 and the dispute fee of $15.00." in text
    assert "Lost to the dispute -$24.99 $9.99 and the dispute fee of $15.00." in text
    assert f'href="/dashboard/{shop.id}/disputes/{dispute.id}">View the dispute' in page.text
    assert "Chargeback fee" not in text
    assert "Charged back" not in text_of(ada.get(f"/dashboard/{shop.id}/payments"))
