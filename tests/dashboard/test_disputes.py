"""The pages of disputes: the list, and a dispute with its deadline, notes and evidence."""

import re
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import chain
from typing import Any, Final

import httpx2
import pytest

from dashboard.pages import hidden_field_values, new_form_id, text_of
from opentill import disputes
from opentill.core.errors import TooManyAtOnce
from opentill.disputes.evidence_model import MAX_BYTES
from opentill.server.upload_limits import AT_ONCE, EACH, EACH_ADDRESS, Uploads
from support.api_server import Shop
from support.people import Visitor, create_person, heading_of
from support.spreadsheets import csv_rows
from support.world import DAY, HOUR

PDF: Final = b"%PDF-1.7\n1 0 obj\n<<>>\nendobj\ntrailer\n<<>>\n%%EOF\n"
PART_HEADER: Final = b'--b\r\ncontent-disposition: form-data; name="file"; filename="a.pdf"\r\n\r\n'


def page_path(shop: Shop, *parts: str) -> str:
    return "/".join((f"/dashboard/{shop.id}/disputes", *parts))


def open_dispute(shop: Shop) -> disputes.Dispute:
    return shop.open_dispute(shop.create_paid_order()["id"])


def decide(shop: Shop, dispute: disputes.Dispute, event: Any) -> None:
    now = shop.api_server.app.clock()
    shop.api_server.tx(
        lambda tx: disputes.decide(tx, shop.id, dispute.id, event, who="bo", reason="x", now=now)
    )


def upload(
    visitor: Visitor, path: str, content: bytes, name: str = "a.pdf", field: str = "file"
) -> httpx2.Response:
    """Upload a file by the form, as a browser does."""
    return visitor.http.post(path, files={field: (name, content, "application/pdf")})


def stream(
    visitor: Visitor, path: str, body: bytes | Iterator[bytes], boundary: str = "b"
) -> httpx2.Response:
    """Send a multipart body; if it is an iterator, it is sent in chunks without a length."""
    headers = {"content-type": f"multipart/form-data; boundary={boundary}"}
    return visitor.http.post(path, content=body, headers=headers)


def slow_body(released: threading.Event, content: bytes = PDF) -> Iterator[bytes]:
    """Yield a form with a file, whose content follows once the event is set."""
    yield PART_HEADER
    assert released.wait(30)
    yield content + b"\r\n--b--\r\n"


def test_the_list_shows_open_disputes_first_with_the_time_left(
    shop: Shop, clock: Callable[[int], None]
) -> None:
    ada = create_person(shop.api_server, shop.id, "viewer")
    assert "No disputes" in ada.get(page_path(shop)).text
    now = 1_795_000_000_000  # 2026-11-18T09:46:40Z
    clock(now)
    overdue, due_soon, newest = (open_dispute(shop) for _ in range(3))
    decide(shop, newest, "won")
    for dispute, deadline in ((overdue, now - 2 * HOUR), (due_soon, now + 3 * DAY)):
        shop.api_server.tx(
            lambda tx, id_=dispute.id, at=deadline: disputes.set_deadline(tx, shop.id, id_, at, now)
        )
    page = ada.get(page_path(shop))
    assert heading_of(page) == "Disputes"
    assert re.findall(r"/disputes/(dp_\w+)", page.text) == [due_soon.id, overdue.id, newest.id]
    for text in ("3 days left", "passed 2 hours ago", "Won", "$9.99", "1 to 3 of 3"):
        assert text in text_of(page)

    def list_ids(**query: str) -> list[str]:
        return re.findall(r"/disputes/(dp_\w+)", ada.get(page_path(shop), params=query).text)

    assert list_ids(status="WON") == [newest.id]
    assert list_ids(status="OPEN", **{"from": "2026-11-18"}) == [due_soon.id, overdue.id]
    assert list_ids(**{"from": "2026-11-19"}) == []
    assert list_ids(page="2") == []
    assert list_ids(status="TO_RESPOND") == [overdue.id, due_soon.id]  # the earliest deadline first
    for dispute, response in ((overdue, "CONTESTED"), (due_soon, "ACCEPTED")):
        shop.api_server.tx(
            lambda tx, id_=dispute.id, response=response: disputes.respond(
                tx, shop.id, id_, response, who="ann", now=now
            )
        )
    states = {"TO_RESPOND": [], "UNDER_REVIEW": [overdue.id], "ACCEPTED": [due_soon.id]}
    assert {state: list_ids(status=state) for state in states} == states
    exported = {
        state: [row["id"] for row in csv_rows(ada.get(f"{page_path(shop)}.csv?status={state}"))]
        for state in states
    }
    assert exported == states
    assert (
        "There are no disputes with this status."
        in ada.get(page_path(shop), params={"status": "LOST"}).text
    )


def test_a_dispute_shows_its_facts_movements_and_history(shop: Shop) -> None:
    ada = create_person(shop.api_server, shop.id, "owner")
    dispute = open_dispute(shop)
    page = text_of(ada.get(page_path(shop, dispute.id)))
    for text in (
        "Dispute of $9.99", "Payment of $9.99", "none set",
        "Total at stake $24.99 $9.99 and the fee of $15.00",
        "submits this, your files and the payment record to the bank",
        "$9.59, the payment less its fees and refunds, stays in Pending until the bank closes",
        "The dispute fee of $15.00 is not held: it is taken if you lose.",
        "None so far. $24.99 is taken if the bank decides for the customer.",
    ):  # fmt: skip
        assert text in page
    decide(shop, dispute, "lost")
    decide(shop, dispute, "recovered")
    page = text_of(ada.get(page_path(shop, dispute.id)))
    for text in (
        "Recovered: the bank returned the money", "Dispute fee", "-$15.00",
        "Chargeback recovered",
    ):  # fmt: skip
        assert text in page
    for text in ("Nothing is sent to the bank", "Add the file", "Deadline", "dispute is open"):
        assert text not in page


def test_a_note_on_a_dispute_is_added_once_and_shown_as_entered(shop: Shop) -> None:
    ada = create_person(shop.api_server, shop.id, "support")
    dispute = open_dispute(shop)
    path = page_path(shop, dispute.id)
    form = {"note": " Delivered.\r\n<b>Signed</b> ", "form_id": new_form_id(ada, path)}
    for _ in range(2):  # a double click submits the form twice
        response = ada.post(f"{path}/notes", form)
        assert (response.status_code, response.headers["location"]) == (303, f"{path}?done=note")
    refusal = ada.post(f"{path}/notes", form | {"note": "More"})  # the form was used already
    assert refusal.status_code == 422
    assert ">\nMore</textarea>" in refusal.text
    *_, form_id = hidden_field_values(refusal, "form_id")  # the form of notes is the last one
    assert ada.post(f"{path}/notes", {"note": "More", "form_id": form_id}).status_code == 303
    page = ada.get(f"{path}?done=note")
    assert page.text.count("Delivered.\n&lt;b&gt;Signed&lt;/b&gt;</p>") == 1
    assert "Note added" in page.text
    assert page.text.count(f'<bdi title="{ada.email}">') == 2  # at both notes
    notes = shop.data("GET", f"/v1/disputes/{dispute.id}")["notes"]
    assert [note["note"] for note in notes] == ["Delivered.\n<b>Signed</b>", "More"]
    rows = shop.api_server.sql(
        "select who, subject from audit_log where merchant_id = $1 and action = 'disputes note'",
        shop.id,
    )
    assert rows == [{"who": f"{ada.email} ({ada.person_id})", "subject": dispute.id}] * 2


def test_the_names_of_staff_are_not_shown_to_merchants(shop: Shop) -> None:
    ada = create_person(shop.api_server, shop.id, "owner")
    dispute = open_dispute(shop)
    shop.api_server.tx(
        lambda tx: disputes.add_note(tx, shop.id, dispute.id, "Sent", "bo@example.com (per_1)", 1)
    )
    page = text_of(ada.get(page_path(shop, dispute.id)))
    assert "Operator Sent" in page
    assert "bo@example.com" not in page


@pytest.mark.parametrize("text", ["", " \r\n ", "x" * 5001, "bell\a"])
def test_a_note_that_is_not_plain_text_is_refused_and_its_input_kept(shop: Shop, text: str) -> None:
    ada = create_person(shop.api_server, shop.id, "owner")
    dispute = open_dispute(shop)
    refusal = ada.post(page_path(shop, dispute.id, "notes"), {"note": text})
    assert refusal.status_code == 400
    error = "Enter plain text of at most 5,000" if text.strip() else "Write a note first"
    assert error in text_of(refusal)
    if text.isprintable() and text:
        assert f">\n{text}</textarea>" in refusal.text
    assert shop.data("GET", f"/v1/disputes/{dispute.id}")["notes"] == []


def test_an_uploaded_file_is_stored_once_and_downloaded_as_an_attachment(shop: Shop) -> None:
    ada = create_person(shop.api_server, shop.id, "owner")
    dispute = open_dispute(shop)
    path = page_path(shop, dispute.id)
    for name in ("收据 7.html", "again.pdf"):
        response = upload(ada, f"{path}/evidence", PDF, name)
        assert (response.status_code, response.headers["location"]) == (303, f"{path}?done=file")
    page = ada.get(f"{path}?done=file")
    assert "收据 7.html.pdf" in page.text
    assert "again.pdf" not in page.text
    (link,) = re.findall(r'href="([^"]+/evidence/ev_\w+)"', page.text)
    for member in (ada, create_person(shop.api_server, shop.id, "viewer")):
        file = member.get(link)
        assert (file.status_code, file.content) == (200, PDF)
        assert file.headers["content-type"] == "application/pdf"
        assert file.headers["content-disposition"] == (
            'attachment; filename="__ 7.html.pdf"; '
            "filename*=UTF-8''%E6%94%B6%E6%8D%AE%207.html.pdf"
        )
        assert file.headers["x-content-type-options"] == "nosniff"
        assert file.headers["cache-control"] == "no-store"
        assert "default-src 'none'; sandbox" in file.headers["content-security-policy"]
    path_at_another_dispute = page_path(shop, open_dispute(shop).id, *link.split("/")[-2:])
    assert ada.get(path_at_another_dispute).status_code == 404
    assert create_person(shop.api_server, shop.id, "developer").get(link).status_code == 403
    other_shop = shop.api_server.create_shop()
    eve = create_person(shop.api_server, other_shop.id, "owner")
    assert eve.get(link).status_code == 404
    for address in (path, link):
        assert eve.get(address.replace(shop.id, other_shop.id)).status_code == 404
    assert Visitor(shop.api_server).get(link).status_code == 303


def test_another_merchants_dispute_accepts_no_note_and_no_file(shop: Shop) -> None:
    dispute = open_dispute(shop)
    other_shop = shop.api_server.create_shop()
    eve = create_person(shop.api_server, other_shop.id, "owner")
    path = page_path(other_shop, dispute.id)
    assert eve.get(path).status_code == 404
    assert eve.post(f"{path}/notes", {"note": "x"}).status_code == 404
    assert upload(eve, f"{path}/evidence", PDF).status_code == 404
    rows = shop.api_server.sql(
        "select action from audit_log where merchant_id = any($1) and action like 'disputes %'",
        [shop.id, other_shop.id],
    )
    assert rows == []


@pytest.mark.parametrize(
    ("content", "name", "status", "error"),
    [
        (b"<script>alert(1)</script>", "letter.pdf", 400, "this one has other content"),
        (b'<svg xmlns="http://www.w3.org/2000/svg"/>', "a.png", 400, "this one has other content"),
        (PDF[:20], "letter.pdf", 400, "or is not whole"),
        (b"", "letter.pdf", 400, "Choose a file that is not empty"),
        (b"", "", 400, "Choose a file that is not empty"),
        (PDF + b" " * MAX_BYTES, "a.pdf", 400, "Choose a file of at most 5 MB"),
        (PDF + b" " * (MAX_BYTES + 70_000), "a.pdf", 413, "Choose a file of at most 5 MB"),
    ],
    ids=["HTML", "SVG", "truncated", "empty", "no file", "too large", "larger than the body limit"],
)
def test_an_invalid_file_of_evidence_shows_its_error_at_the_field(
    shop: Shop, content: bytes, name: str, status: int, error: str
) -> None:
    ada = create_person(shop.api_server, shop.id, "owner")
    dispute = open_dispute(shop)
    refusal = upload(ada, page_path(shop, dispute.id, "evidence"), content, name)
    assert refusal.status_code == status
    assert error in refusal.text
    assert 'id="file-error"' in refusal.text
    assert (
        "Banks rarely decide for a merchant without documents."
        in ada.get(page_path(shop, dispute.id)).text
    )


def test_a_body_without_a_length_is_read_only_up_to_the_limit(shop: Shop) -> None:
    ada = create_person(shop.api_server, shop.id, "owner")
    path = page_path(shop, open_dispute(shop).id, "evidence")
    size = MAX_BYTES + 200_000
    oversized_body = chain([PART_HEADER + PDF], (b" " * 65_536 for _ in range(size // 65_536)))
    assert stream(ada, path, oversized_body).status_code == 413
    for body, boundary in ((b"--b\r\nnot a form", "b"), (b"", "b"), (b"--b--\r\n", "")):
        assert stream(ada, path, body, boundary).status_code == 400, body
    assert ada.post(path, {"file": "x"}).status_code == 400
    assert upload(ada, path, PDF, field="other").status_code == 400


def test_the_concurrent_uploads_of_a_person_are_limited(shop: Shop) -> None:
    ada = create_person(shop.api_server, shop.id, "owner")
    path = page_path(shop, open_dispute(shop).id, "evidence")
    released, current_uploads = threading.Event(), shop.api_server.app.uploads

    def upload_slowly(number: int) -> int:
        return stream(ada, path, slow_body(released, PDF + bytes([number]))).status_code

    with ThreadPoolExecutor(EACH) as pool:
        uploads = [pool.submit(upload_slowly, number) for number in range(EACH)]
        while current_uploads._by_person[ada.person_id] < EACH:
            time.sleep(0.01)
        assert upload(ada, path, PDF).status_code == 429
        released.set()
        assert [future.result() for future in uploads] == [303] * EACH
    assert upload(ada, path, PDF).status_code == 303
    assert not current_uploads._by_person
    assert not current_uploads._by_address


@pytest.mark.parametrize("sender", ["a stranger", "a viewer", "an owner of another shop"])
def test_uploads_without_permission_do_not_count_towards_the_limit(shop: Shop, sender: str) -> None:
    other_shop = shop.api_server.create_shop(name="Second Shop")
    visitor = {
        "a stranger": lambda: Visitor(shop.api_server),
        "a viewer": lambda: create_person(shop.api_server, shop.id, "viewer"),
        "an owner of another shop": lambda: create_person(shop.api_server, other_shop.id, "owner"),
    }[sender]()
    ada = create_person(shop.api_server, shop.id, "owner")
    path = page_path(shop, open_dispute(shop).id, "evidence")
    released, started = threading.Event(), threading.Semaphore(0)

    def upload_slowly() -> int:
        body = slow_body(released)
        first_part = next(body)
        started.release()
        return stream(visitor, path, chain([first_part], body)).status_code

    with ThreadPoolExecutor(AT_ONCE) as pool:
        uploads = [pool.submit(upload_slowly) for _ in range(AT_ONCE)]
        for _ in range(AT_ONCE):
            assert started.acquire(timeout=30)
        time.sleep(0.2)  # the server gets time to read the first parts
        assert not shop.api_server.app.uploads._by_person
        assert upload(ada, path, PDF).status_code == 303
        released.set()
        assert {future.result() for future in uploads} <= {401, 403, 404}


def test_an_upload_that_times_out_no_longer_counts_towards_the_limit(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    ada = create_person(shop.api_server, shop.id, "owner")
    path = page_path(shop, open_dispute(shop).id, "evidence")
    released, current_uploads = threading.Event(), shop.api_server.app.uploads
    monkeypatch.setattr(current_uploads, "time_s", 0.3)
    with ThreadPoolExecutor(1) as pool:
        slow_upload = pool.submit(stream, ada, path, slow_body(released))
        while not current_uploads._by_person:
            time.sleep(0.01)
        while current_uploads._by_person:
            time.sleep(0.01)
        released.set()
        assert slow_upload.result().status_code == 400
    assert upload(ada, path, PDF).status_code == 303


def test_the_concurrent_uploads_of_a_network_are_limited() -> None:
    uploads = Uploads()
    with ExitStack() as running:
        for number in range(EACH_ADDRESS):
            running.enter_context(uploads.turn(f"per_{number}", f"2001:db8::{number}"))
        with pytest.raises(TooManyAtOnce), uploads.turn("per_9", "2001:db8::ffff"):
            pass
        running.enter_context(uploads.turn("per_9", "2001:db8:0:1::1"))
    with uploads.turn("per_9", "2001:db8::ffff"):
        pass


def test_an_upload_without_a_login_has_the_size_limit_of_other_forms(shop: Shop) -> None:
    path = page_path(shop, open_dispute(shop).id, "evidence")
    stranger = Visitor(shop.api_server)
    too_large = upload(stranger, path, PDF + b" " * 200_000)
    assert (too_large.status_code, too_large.headers["location"]) == (303, "/login?next=")
    kept_form = upload(stranger, path, PDF)
    assert kept_form.status_code == 401
    assert "Files and passwords are not kept" in kept_form.text


def test_another_site_and_a_viewer_cannot_add_to_a_dispute(shop: Shop) -> None:
    dispute = open_dispute(shop)
    ada = create_person(shop.api_server, shop.id, "owner")
    from_another_site = ada.http.post(
        page_path(shop, dispute.id, "evidence"),
        files={"file": ("a.pdf", PDF, "application/pdf")},
        headers={"origin": "https://evil.example"},
    )
    assert from_another_site.status_code == 403
    viewer = create_person(shop.api_server, shop.id, "viewer")
    page = viewer.get(page_path(shop, dispute.id))
    assert "<textarea" not in page.text
    assert 'type="file"' not in page.text
    assert upload(viewer, page_path(shop, dispute.id, "evidence"), PDF).status_code == 403
    assert viewer.post(page_path(shop, dispute.id, "notes"), {"note": "x"}).status_code == 403
    response = {"response": "ACCEPTED", "confirm": "yes"}
    assert "Contest the dispute" not in page.text
    for sender in (viewer, create_person(shop.api_server, shop.id, "finance")):
        assert sender.post(page_path(shop, dispute.id, "response"), response).status_code == 403


def test_a_file_for_a_decided_dispute_is_refused(shop: Shop) -> None:
    ada = create_person(shop.api_server, shop.id, "owner")
    dispute = open_dispute(shop)
    decide(shop, dispute, "won")
    refusal = upload(ada, page_path(shop, dispute.id, "evidence"), PDF)
    assert refusal.status_code == 400
    assert "The dispute is decided" in refusal.text


def test_the_export_of_disputes_has_the_filters_of_the_list(shop: Shop) -> None:
    ada = create_person(shop.api_server, shop.id, "viewer")
    won_dispute, pending_dispute = open_dispute(shop), open_dispute(shop)
    decide(shop, won_dispute, "won")
    assert f'href="/dashboard/{shop.id}/disputes.csv"' in ada.get(page_path(shop)).text

    def export(query: str) -> list[dict[str, str]]:
        return csv_rows(ada.get(f"/dashboard/{shop.id}/disputes.csv{query}"))

    won_row, pending_row = export("")  # the oldest dispute comes first
    assert (won_row["id"], pending_row["id"]) == (won_dispute.id, pending_dispute.id)
    assert won_row["createdAt"] == str(won_dispute.created_at)
    assert won_row["createdAt UTC"] == won_row["createdAtUtc"][:19].replace("T", " ")
    assert (won_row["status"], pending_row["closedAtUtc"]) == ("WON", "")
    assert (won_row["outcome"], pending_row["outcome"]) == ("WON", "")
    assert (pending_row["response"], pending_row["respondedAtUtc"]) == ("", "")
    assert [row["id"] for row in export("?status=OPEN")] == [pending_dispute.id]
    assert export("?to=2020-01-01") == []
    wrong_day = ada.get(f"/dashboard/{shop.id}/disputes.csv?from=soon")
    assert wrong_day.headers["location"] == f"/dashboard/{shop.id}/disputes?from=soon"


def test_the_list_shows_the_customer_of_each_dispute(shop: Shop) -> None:
    ada = create_person(shop.api_server, shop.id, "viewer")
    named_dispute, unnamed_dispute = open_dispute(shop), open_dispute(shop)
    for dispute, name, email in (
        (named_dispute, "Lin <Xu>", "lin@x.example"),
        (unnamed_dispute, None, ""),
    ):
        shop.api_server.sql(
            "update orders set customer_name = $3, customer_email = $4"
            " where merchant_id = $1 and id = $2",
            shop.id,
            dispute.order_id,
            name,
            email,
        )
    rows = re.findall(r'<tr role="row">.*?</tr>', ada.get(page_path(shop)).text, re.DOTALL)
    cells = {
        dispute.id: re.findall(r'data-label="Customer"[^>]*>(.*?)</td>', row, re.DOTALL)
        for dispute in (named_dispute, unnamed_dispute)
        for row in rows
        if dispute.id in row
    }
    assert text_of(cells[named_dispute.id][0]) == "Lin &lt;Xu&gt;"
    assert text_of(cells[unnamed_dispute.id][0]) == "–"
