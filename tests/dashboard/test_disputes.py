"""The pages of disputes: the list, one with its deadline, notes, and files as evidence."""

import re
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any, Final

import httpx2
import pytest

from opentill import disputes
from opentill.core.errors import TooManyAtOnce
from opentill.disputes.evidence_model import MAX_BYTES
from opentill.server.upload_limits import AT_ONCE, EACH, EACH_ADDRESS, Uploads
from support.api_server import Shop
from support.people import Visitor, person, title
from support.spreadsheets import rows_of
from support.world import DAY, HOUR

PDF: Final = b"%PDF-1.7\n1 0 obj\n<<>>\nendobj\ntrailer\n<<>>\n%%EOF\n"


def path(shop: Shop, *parts: str) -> str:
    return "/".join((f"/dashboard/{shop.id}/disputes", *parts))


def opened(shop: Shop) -> disputes.Dispute:
    return shop.dispute(shop.paid()["id"])


def decide(shop: Shop, dispute: disputes.Dispute, event: Any) -> None:
    now = shop.api_server.app.clock()
    shop.api_server.tx(
        lambda tx: disputes.decide(tx, shop.id, dispute.id, event, who="bo", reason="x", now=now)
    )


def send(
    visitor: Visitor, to: str, content: bytes, name: str = "a.pdf", field: str = "file"
) -> httpx2.Response:
    """Send a file by the form, as a browser does."""
    return visitor.http.post(to, files={field: (name, content, "application/pdf")})


def words(response: httpx2.Response) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", response.text).split())


def form_id(visitor: Visitor, to: str) -> str:
    return re.findall(r'name="form_id" value="(\w+)"', visitor.get(to).text)[0]


def test_the_list_has_open_ones_first_with_what_is_left_of_their_time(
    shop: Shop, clock: Callable[[int], None]
) -> None:
    ada = person(shop.api_server, shop.id, "viewer")
    assert "There are no disputes." in words(ada.get(path(shop)))
    now = 1_795_000_000_000  # 2026-11-18T09:46:40Z
    clock(now)
    late, soon, newest = (opened(shop) for _ in range(3))
    decide(shop, newest, "won")
    for dispute, until in ((late, now - 2 * HOUR), (soon, now + 3 * DAY)):
        shop.api_server.tx(
            lambda tx, one=dispute, at=until: disputes.set_deadline(tx, shop.id, one.id, at, now)
        )
    page = ada.get(path(shop))
    assert title(page) == "Disputes"
    assert re.findall(r"/disputes/(dp_\w+)", page.text) == [soon.id, late.id, newest.id]
    for sentence in ("3 days left", "passed 2 hours ago", "Won", "$9.99", "1 to 3 of 3"):
        assert sentence in words(page)

    def ids(**query: str) -> list[str]:
        return re.findall(r"/disputes/(dp_\w+)", ada.get(path(shop), params=query).text)

    assert ids(status="WON") == [newest.id]
    assert ids(status="OPEN", **{"from": "2026-11-18"}) == [soon.id, late.id]
    assert ids(**{"from": "2026-11-19"}) == []
    assert ids(page="2") == []
    assert "Nothing matches" in words(ada.get(path(shop), params={"status": "LOST"}))


def test_a_dispute_shows_its_facts_its_money_and_what_happened(shop: Shop) -> None:
    ada = person(shop.api_server, shop.id, "owner")
    dispute = opened(shop)
    page = words(ada.get(path(shop, dispute.id)))
    for sentence in (
        "Dispute of $9.99", dispute.order_id, "none named", "Fee if lost $15.00",
        "Nothing is sent to the bank by itself", "The payment does not settle",
    ):  # fmt: skip
        assert sentence in page
    decide(shop, dispute, "lost")
    decide(shop, dispute, "recovered")
    page = words(ada.get(path(shop, dispute.id)))
    for sentence in (
        "Recovered: the bank returned the money", "Chargeback fee", "-$15.00",
        "Chargeback recovered",
        "The dispute is decided: no more files are taken",
    ):  # fmt: skip
        assert sentence in page
    assert "Nothing is sent to the bank" not in page


def test_a_note_is_added_once_by_somebody_and_shown_as_it_was_typed(shop: Shop) -> None:
    ada = person(shop.api_server, shop.id, "support")
    dispute = opened(shop)
    here = path(shop, dispute.id)
    once = form_id(ada, here)
    form = {"note": " Delivered.\r\n<b>Signed</b> ", "form_id": once}
    for _ in range(2):  # a double click
        sent = ada.post(f"{here}/notes", form)
        assert (sent.status_code, sent.headers["location"]) == (303, f"{here}?done=note")
    again = ada.post(f"{here}/notes", {"note": "More", "form_id": once})  # back, with other text
    assert again.status_code == 422
    assert ">\nMore</textarea>" in again.text
    (fresh,) = re.findall(r'name="form_id" value="(\w+)"', again.text)
    assert ada.post(f"{here}/notes", {"note": "More", "form_id": fresh}).status_code == 303
    page = ada.get(f"{here}?done=note")
    assert page.text.count("Delivered.\n&lt;b&gt;Signed&lt;/b&gt;</p>") == 1
    assert "Your note is added." in words(page)
    assert words(page).count(ada.email) == 2 + 1  # beside the notes, and in the menu
    notes = shop.data("GET", f"/v1/disputes/{dispute.id}")["notes"]
    assert [one["note"] for one in notes] == ["Delivered.\n<b>Signed</b>", "More"]
    rows = shop.api_server.sql(
        "select who, subject from audit_log where merchant_id = $1 and action = 'disputes note'",
        shop.id,
    )
    by = {"who": f"{ada.email} ({ada.person_id})", "subject": dispute.id}
    assert rows == [by, by]


def test_the_operators_people_are_not_named(shop: Shop) -> None:
    ada = person(shop.api_server, shop.id, "owner")
    dispute = opened(shop)
    shop.api_server.tx(
        lambda tx: disputes.add_note(tx, shop.id, dispute.id, "Sent", "bo@example.com (per_1)", 1)
    )
    page = words(ada.get(path(shop, dispute.id)))
    assert "Operator Sent" in page
    assert "bo@example.com" not in page


@pytest.mark.parametrize("text", ["", " \r\n ", "x" * 5001, "bell\a"])
def test_a_note_that_is_no_plain_text_is_refused_and_stays_in_its_field(
    shop: Shop, text: str
) -> None:
    ada = person(shop.api_server, shop.id, "owner")
    dispute = opened(shop)
    refused = ada.post(path(shop, dispute.id, "notes"), {"note": text})
    assert refused.status_code == 400
    assert "Enter plain text of 1 to 5,000 characters" in words(refused)
    if text.isprintable() and text:
        assert f">\n{text}</textarea>" in refused.text
    assert shop.data("GET", f"/v1/disputes/{dispute.id}")["notes"] == []


def test_a_file_is_kept_once_and_comes_back_as_an_attachment(shop: Shop) -> None:
    ada = person(shop.api_server, shop.id, "owner")
    dispute = opened(shop)
    here = path(shop, dispute.id)
    for name in ("收据 7.html", "again.pdf"):
        sent = send(ada, f"{here}/evidence", PDF, name)
        assert (sent.status_code, sent.headers["location"]) == (303, f"{here}?done=file")
    page = ada.get(f"{here}?done=file")
    assert "收据 7.html.pdf" in page.text
    assert "again.pdf" not in page.text
    (link,) = re.findall(r'href="([^"]+/evidence/ev_\w+)"', page.text)
    for reader in (ada, person(shop.api_server, shop.id, "viewer")):
        file = reader.get(link)
        assert (file.status_code, file.content) == (200, PDF)
        assert file.headers["content-type"] == "application/pdf"
        assert file.headers["content-disposition"] == (
            'attachment; filename="__ 7.html.pdf"; '
            "filename*=UTF-8''%E6%94%B6%E6%8D%AE%207.html.pdf"
        )
        assert file.headers["x-content-type-options"] == "nosniff"
        assert file.headers["cache-control"] == "no-store"
        policy = file.headers["content-security-policy"]
        assert "default-src 'none'; sandbox" in policy
    other = path(shop, opened(shop).id, *link.split("/")[-2:])
    assert ada.get(other).status_code == 404  # not of that dispute
    assert person(shop.api_server, shop.id, "developer").get(link).status_code == 403
    stranger = shop.api_server.shop()
    eve = person(shop.api_server, stranger.id, "owner")
    assert eve.get(link).status_code == 404
    for one in (here, link):
        assert eve.get(one.replace(shop.id, stranger.id)).status_code == 404
    assert Visitor(shop.api_server).get(link).status_code == 303


def test_another_merchants_dispute_takes_nothing(shop: Shop) -> None:
    dispute = opened(shop)
    stranger = shop.api_server.shop()
    eve = person(shop.api_server, stranger.id, "owner")
    theirs = path(stranger, dispute.id)
    assert eve.get(theirs).status_code == 404
    assert eve.post(f"{theirs}/notes", {"note": "x"}).status_code == 404
    assert send(eve, f"{theirs}/evidence", PDF).status_code == 404
    rows = shop.api_server.sql(
        "select action from audit_log where merchant_id = any($1) and action like 'disputes %'",
        [shop.id, stranger.id],
    )
    assert rows == []


@pytest.mark.parametrize(
    ("content", "name", "status", "sentence"),
    [
        (b"<script>alert(1)</script>", "letter.pdf", 400, "this one has other content"),
        (b'<svg xmlns="http://www.w3.org/2000/svg"/>', "a.png", 400, "this one has other content"),
        (PDF[:20], "letter.pdf", 400, "or is not whole"),
        (b"", "letter.pdf", 400, "Choose a file that is not empty"),
        (b"", "", 400, "Choose a file that is not empty"),
        (PDF + b" " * MAX_BYTES, "a.pdf", 400, "Choose a file of at most 5 MB"),
        (PDF + b" " * (MAX_BYTES + 70_000), "a.pdf", 413, "Choose a file of at most 5 MB"),
    ],
    ids=["a page", "a drawing", "half", "empty", "none", "too long", "much too long"],
)
def test_what_is_no_evidence_is_refused_at_its_field(
    shop: Shop, content: bytes, name: str, status: int, sentence: str
) -> None:
    ada = person(shop.api_server, shop.id, "owner")
    dispute = opened(shop)
    refused = send(ada, path(shop, dispute.id, "evidence"), content, name)
    assert refused.status_code == status
    assert sentence in words(refused)
    assert 'id="file-error"' in refused.text
    assert "There are no files." in words(ada.get(path(shop, dispute.id)))


def _streamed(size: int) -> Any:
    """Yield a form whose file is so long, and that does not end."""
    yield (b'--b\r\ncontent-disposition: form-data; name="file"; filename="a.pdf"\r\n\r\n' + PDF)
    for _ in range(size // 65_536):
        yield b" " * 65_536


def test_a_body_without_a_length_is_taken_no_further_than_the_bound(shop: Shop) -> None:
    ada = person(shop.api_server, shop.id, "owner")
    dispute = opened(shop)
    refused = ada.http.post(
        path(shop, dispute.id, "evidence"),
        content=_streamed(MAX_BYTES + 200_000),
        headers={"content-type": "multipart/form-data; boundary=b"},
    )
    assert refused.status_code == 413
    for body, boundary in ((b"--b\r\nnot a form", "b"), (b"", "b"), (b"--b--\r\n", "")):
        broken = ada.http.post(
            path(shop, dispute.id, "evidence"),
            content=body,
            headers={"content-type": f"multipart/form-data; boundary={boundary}"},
        )
        assert broken.status_code == 400, body
    assert ada.post(path(shop, dispute.id, "evidence"), {"file": "x"}).status_code == 400
    assert send(ada, path(shop, dispute.id, "evidence"), PDF, field="other").status_code == 400


def test_so_many_uploads_of_a_person_run_at_once_and_no_more(shop: Shop) -> None:
    ada = person(shop.api_server, shop.id, "owner")
    dispute = opened(shop)
    go = threading.Event()

    def slow(number: int) -> Any:
        yield b'--b\r\ncontent-disposition: form-data; name="file"; filename="a.pdf"\r\n\r\n'
        assert go.wait(30)
        yield PDF + bytes([number]) + b"\r\n--b--\r\n"

    def upload(number: int) -> int:
        response = ada.http.post(
            path(shop, dispute.id, "evidence"),
            content=slow(number),
            headers={"content-type": "multipart/form-data; boundary=b"},
        )
        return response.status_code

    running = shop.api_server.app.uploads
    with ThreadPoolExecutor(EACH) as pool:
        uploads = [pool.submit(upload, number) for number in range(EACH)]
        while running._by_person[ada.person_id] < EACH:
            time.sleep(0.01)
        assert send(ada, path(shop, dispute.id, "evidence"), PDF).status_code == 429
        go.set()
        assert [one.result() for one in uploads] == [303] * EACH
    assert send(ada, path(shop, dispute.id, "evidence"), PDF).status_code == 303
    assert not running._by_person
    assert not running._by_address


@pytest.mark.parametrize("who", ["a stranger", "a viewer", "an owner of another shop"])
def test_who_may_not_upload_holds_no_place(shop: Shop, who: str) -> None:
    """Slow bodies of theirs, however many, leave the places to those who may."""
    other = shop.api_server.shop(name="Second Shop")
    sender = {
        "a stranger": lambda: Visitor(shop.api_server),
        "a viewer": lambda: person(shop.api_server, shop.id, "viewer"),
        "an owner of another shop": lambda: person(shop.api_server, other.id, "owner"),
    }[who]()
    ada = person(shop.api_server, shop.id, "owner")
    dispute = opened(shop)
    go, begun = threading.Event(), threading.Semaphore(0)

    def slow() -> Any:
        yield b'--b\r\ncontent-disposition: form-data; name="file"; filename="a.pdf"\r\n\r\n'
        begun.release()
        assert go.wait(30)
        yield PDF + b"\r\n--b--\r\n"

    def upload() -> int:
        response = sender.http.post(
            path(shop, dispute.id, "evidence"),
            content=slow(),
            headers={"content-type": "multipart/form-data; boundary=b"},
        )
        return response.status_code

    with ThreadPoolExecutor(AT_ONCE) as pool:
        uploads = [pool.submit(upload) for _ in range(AT_ONCE)]
        for _ in range(AT_ONCE):
            assert begun.acquire(timeout=30)
        time.sleep(0.2)  # for what was sent to be read
        assert not shop.api_server.app.uploads._by_person
        assert send(ada, path(shop, dispute.id, "evidence"), PDF).status_code == 303
        go.set()
        assert {one.result() for one in uploads} <= {401, 403, 404}


def test_a_file_that_does_not_arrive_in_time_gives_its_place_back(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    ada = person(shop.api_server, shop.id, "owner")
    dispute = opened(shop)
    running = shop.api_server.app.uploads
    monkeypatch.setattr(running, "time_s", 0.3)
    go = threading.Event()

    def slow() -> Any:
        yield b'--b\r\ncontent-disposition: form-data; name="file"; filename="a.pdf"\r\n\r\n'
        go.wait(5)
        yield PDF + b"\r\n--b--\r\n"

    with ThreadPoolExecutor(1) as pool:
        late = pool.submit(
            ada.http.post,
            path(shop, dispute.id, "evidence"),
            content=slow(),
            headers={"content-type": "multipart/form-data; boundary=b"},
        )
        while not running._by_person:
            time.sleep(0.01)
        while running._by_person:
            time.sleep(0.01)
        go.set()
        assert late.result().status_code == 400
    assert send(ada, path(shop, dispute.id, "evidence"), PDF).status_code == 303


def test_the_places_of_one_network_are_bounded_whoever_sends() -> None:
    uploads = Uploads()
    with ExitStack() as running:
        for number in range(EACH_ADDRESS):
            running.enter_context(uploads.turn(f"per_{number}", f"2001:db8::{number}"))
        with pytest.raises(TooManyAtOnce), uploads.turn("per_9", "2001:db8::ffff"):
            pass
        running.enter_context(uploads.turn("per_9", "2001:db8:0:1::1"))
    with uploads.turn("per_9", "2001:db8::ffff"):
        pass


def test_of_somebody_who_is_not_logged_in_no_more_is_read_than_of_other_forms(shop: Shop) -> None:
    to = path(shop, opened(shop).id, "evidence")
    nobody = Visitor(shop.api_server)
    sent = send(nobody, to, PDF + b" " * 200_000)
    assert (sent.status_code, sent.headers["location"]) == (303, "/login?next=")
    kept = send(nobody, to, PDF)
    assert kept.status_code == 401
    assert "Files and passwords are not kept" in words(kept)


def test_a_foreign_site_and_those_who_only_read_add_nothing(shop: Shop) -> None:
    dispute = opened(shop)
    ada = person(shop.api_server, shop.id, "owner")
    foreign = ada.http.post(
        path(shop, dispute.id, "evidence"),
        files={"file": ("a.pdf", PDF, "application/pdf")},
        headers={"origin": "https://evil.example"},
    )
    assert foreign.status_code == 403
    viewer = person(shop.api_server, shop.id, "viewer")
    page = viewer.get(path(shop, dispute.id))
    assert "<textarea" not in page.text
    assert 'type="file"' not in page.text
    assert send(viewer, path(shop, dispute.id, "evidence"), PDF).status_code == 403
    assert viewer.post(path(shop, dispute.id, "notes"), {"note": "x"}).status_code == 403


def test_a_file_for_a_dispute_that_was_decided_meanwhile_is_refused(shop: Shop) -> None:
    ada = person(shop.api_server, shop.id, "owner")
    dispute = opened(shop)
    decide(shop, dispute, "won")
    refused = send(ada, path(shop, dispute.id, "evidence"), PDF)
    assert refused.status_code == 400
    assert "The dispute is decided" in words(refused)


def test_the_disputes_of_the_list_are_downloaded_with_their_times(shop: Shop) -> None:
    ada = person(shop.api_server, shop.id, "viewer")
    first, second = opened(shop), opened(shop)
    decide(shop, first, "won")
    listed = ada.get(path(shop)).text
    assert f'href="/dashboard/{shop.id}/disputes.csv"' in listed

    def rows(query: str) -> list[dict[str, str]]:
        answer = ada.get(f"/dashboard/{shop.id}/disputes.csv{query}")
        assert answer.headers["content-type"] == "text/csv; charset=utf-8"
        return rows_of(answer)

    both = rows("")
    assert [one["id"] for one in both] == [first.id, second.id]  # oldest first
    assert both[0]["createdAt"] == str(first.created_at)
    assert both[0]["createdAt UTC"] == both[0]["createdAtUtc"][:19].replace("T", " ")
    assert (both[0]["status"], both[1]["closedAtUtc"]) == ("WON", "")
    assert [one["id"] for one in rows("?status=OPEN")] == [second.id]
    assert rows("?to=2020-01-01") == []
    wrong = ada.get(f"/dashboard/{shop.id}/disputes.csv?from=soon")
    assert wrong.headers["location"] == f"/dashboard/{shop.id}/disputes?from=soon"
