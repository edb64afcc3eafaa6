"""Disputes in the console: list, deadline, evidence, notes, and dismissing unmatched disputes."""

import re
from datetime import UTC, date, datetime, timedelta
from functools import partial
from typing import Final

from console.console_pages import audit_rows, hidden_fields
from opentill import disputes, orders
from opentill.core.money import Money
from opentill.db.database import Tx
from opentill.gateways import GatewayDisputeEvent
from support import world
from support.api_server import Shop
from support.people import TESTER, create_person, heading_of
from support.spreadsheets import csv_rows

DAY_MS: Final = 86_400_000
PDF: Final = b"%PDF-1.7\ntrailer\n<<>>\n%%EOF\n"


def facts_of(page: str) -> dict[str, str]:
    """Return the texts of the facts of a page by their names."""
    pairs = re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", page, re.DOTALL)
    return {name: re.sub(r"<[^>]*>", "", text).strip() for name, text in pairs}


def form_fields(page: str, action: str) -> dict[str, str]:
    """Return the hidden fields of the form that is submitted to ``action``."""
    return hidden_fields(page.partition(f'action="{action}"')[2].partition("</form>")[0])


def test_staff_set_the_deadline_of_a_dispute_which_then_needs_attention(shop: Shop) -> None:
    agent = create_person(shop.api_server, None, staff_role="support")
    dispute = shop.open_dispute(shop.create_paid_order()["id"])
    path = f"/console/disputes/{dispute.id}"
    assert f'href="{path}"' in agent.get(f"/console/payments/{dispute.order_id}").text
    page = agent.get(path)
    assert (heading_of(page), "None set" in page.text) == ("Dispute of $9.99", True)
    form = form_fields(page.text, f"{path}/deadline") | {"reason": "the <bank> says so"}
    today = datetime.fromtimestamp(shop.api_server.app.clock() // 1000, UTC).date()
    day = str(today + timedelta(days=1))
    for until, reason, error in (
        (str(today - timedelta(days=1)), "late", "Enter a day from today on"),
        ("soon", "late", "Enter a day from today on"),
        (day, " ", "Say why"),
    ):
        refusal = agent.post(f"{path}/deadline", form | {"until": until, "reason": reason})
        assert (refusal.status_code, error in refusal.text) == (400, True), until
        assert f'value="{until}"' in refusal.text
    for _ in range(2):  # a double click submits the form twice
        response = agent.post(f"{path}/deadline", form | {"until": day})
        assert response.headers["location"].endswith(f"{path}?done=deadline")
    stored_dispute = shop.api_server.tx(lambda tx: disputes.find(tx, shop.id, dispute.id))
    deadline = datetime.fromtimestamp((stored_dispute.respond_by or 0) / 1000, UTC)
    assert (deadline.date(), f"{deadline:%T}") == (date.fromisoformat(day), "23:59:59")
    assert audit_rows(shop, "disputes deadline") == [(agent.audit_name, "the <bank> says so")]
    old_form = form_fields(page.text, f"{path}/deadline") | {"form_id": "0" * 32, "until": day}
    conflict = agent.post(f"{path}/deadline", old_form | {"reason": "an old page"})
    assert (conflict.status_code, "has changed since" in conflict.text) == (409, True)
    assert 'value="an old page"' in conflict.text
    assert f'href="{path}"' in agent.get("/console/needs/disputes").text


def test_disputes_of_all_merchants_are_listed_filtered_and_exported(shop: Shop) -> None:
    server, auditor = shop.api_server, create_person(shop.api_server, None, staff_role="auditor")
    other_shop = server.create_shop()
    due_soon, lost = (
        shop.open_dispute(shop.create_paid_order()["id"]),
        shop.open_dispute(shop.create_paid_order()["id"]),
    )
    other_shops_dispute = other_shop.open_dispute(other_shop.create_paid_order()["id"])
    now = server.app.clock()

    async def decide(tx: Tx) -> None:
        await disputes.decide(tx, shop.id, lost.id, "lost", who="op", reason="the bank", now=now)
        until = now + 2 * DAY_MS
        await tx.execute("update disputes set respond_by = $2 where id = $1", due_soon.id, until)

    server.tx(decide)
    path = "/console/disputes"

    def list_disputes(query: str = "") -> list[str]:
        page = auditor.get(path + query).text
        ids = re.findall(rf'href="{path}/(dp_\w+)"', page)
        return [
            dispute_id
            for dispute_id in ids
            if dispute_id in {due_soon.id, lost.id, other_shops_dispute.id}
        ]

    assert list_disputes() == [other_shops_dispute.id, lost.id, due_soon.id]
    assert list_disputes("?status=OPEN") == [other_shops_dispute.id, due_soon.id]
    assert list_disputes("?status=SOON") == [due_soon.id]
    server.sql(
        "update disputes set respond_by = $2 where id = $1", other_shops_dispute.id, now + DAY_MS
    )
    assert list_disputes("?status=SOON") == [other_shops_dispute.id, due_soon.id], (
        "the earliest deadline comes first"
    )
    assert list_disputes(f"?status=SOON&before={other_shops_dispute.id}") == [due_soon.id]
    exported_rows = csv_rows(auditor.get(f"{path}.csv?status=SOON"))
    exported_ids = [
        row["id"] for row in exported_rows if row["id"] in {other_shops_dispute.id, due_soon.id}
    ]
    assert exported_ids == [other_shops_dispute.id, due_soon.id]
    assert list_disputes("?status=LOST") == [lost.id]
    assert list_disputes("?status=WON") == []
    assert list_disputes(f"?before={other_shops_dispute.id}") == [lost.id, due_soon.id]
    assert list_disputes("?to=2001-01-01") == []
    assert 'id="from-error"' in auditor.get(f"{path}?from=soon").text
    file = auditor.get(f"{path}.csv?status=LOST")
    rows = [row for row in csv_rows(file) if row["id"] == lost.id]
    assert [(row["merchantId"], row["merchant"], row["amount"]) for row in rows] == [
        (shop.id, "Harbour Books", "9.99")
    ]
    assert other_shops_dispute.id not in file.text


def test_staff_read_the_evidence_and_write_notes_that_the_merchant_reads(shop: Shop) -> None:
    server, agent = shop.api_server, create_person(shop.api_server, None, staff_role="support")
    dispute = shop.open_dispute(shop.create_paid_order()["id"])
    path = f"/console/disputes/{dispute.id}"
    evidence = server.run(
        disputes.add_evidence(
            server.app.db, shop.id, dispute.id, "r.pdf", PDF, actor=TESTER, now=server.app.clock()
        )
    )
    page = agent.get(path).text
    assert f'href="{path}/evidence/{evidence.id}"' in page
    file = agent.get(f"{path}/evidence/{evidence.id}")
    assert (file.content, file.headers["content-type"]) == (PDF, "application/pdf")
    assert file.headers["content-disposition"].startswith("attachment")
    assert "The merchant’s team reads all of these notes." in page
    assert '<label for="note">Note that the merchant’s team reads</label>' in page
    assert f'href="/console/merchants/{shop.id}/standing"' in page  # notes that only staff read
    form = form_fields(page, f"{path}/notes")
    assert agent.post(f"{path}/notes", form | {"note": " "}).status_code == 400
    for _ in range(2):
        response = agent.post(f"{path}/notes", form | {"note": "The bank wants\nproof."})
        assert response.headers["location"].endswith(f"{path}?done=note")
    another_note = agent.post(f"{path}/notes", form | {"note": "Another."})
    assert (another_note.status_code, "was already sent" in another_note.text) == (422, True)
    assert ">\nAnother.</textarea>" in another_note.text
    owner = create_person(server, shop.id, "owner")
    merchants_page = owner.get(f"/dashboard/{shop.id}/disputes/{dispute.id}").text
    assert merchants_page.count("The bank wants\nproof.") == 1
    assert [who for who, _ in audit_rows(shop, "disputes note")] == [agent.audit_name]


def test_staff_mark_a_response_as_forwarded_and_a_note_is_not_enough(shop: Shop) -> None:
    server, agent = shop.api_server, create_person(shop.api_server, None, staff_role="support")
    owner = create_person(server, shop.id, "owner")
    dispute = shop.open_dispute(shop.create_paid_order()["id"])
    path, place = f"/console/disputes/{dispute.id}", f"/dashboard/{shop.id}/disputes"
    assert "Mark as forwarded" not in agent.get(path).text
    assert agent.post(f"{path}/forwarded", {"how": "by email"}).status_code == 409
    contest = {"response": "CONTESTED", "explanation": "Delivered."}
    assert owner.post(f"{place}/{dispute.id}/response", contest).status_code == 303
    assert "Dispute responses to forward: " in agent.get("/console/").text
    assert "Contested" in agent.get("/console/needs/responses").text
    page = agent.get(path).text
    assert facts_of(page)["Sent to the bank"] == "Not forwarded yet"
    assert "Sent to the bank" not in agent.get("/console/disputes").text
    note = form_fields(page, f"{path}/notes") | {"note": "Which parcel service?"}
    assert agent.post(f"{path}/notes", note).status_code == 303
    assert path in agent.get("/console/needs/responses").text
    assert "Sent to the operator" in owner.get(place).text
    form = form_fields(page, f"{path}/forwarded")
    assert agent.post(f"{path}/forwarded", form | {"how": " "}).status_code == 400
    for _ in range(2):
        response = agent.post(f"{path}/forwarded", form | {"how": "portal of the bank"})
        assert response.headers["location"].endswith(f"{path}?done=forwarded")
    assert path not in agent.get("/console/needs/responses").text
    assert "Under review" in owner.get(place).text
    facts = facts_of(agent.get(path).text)
    assert re.search(r"\d:\d\d", facts["Sent to the bank"])
    assert facts["Deadline"].endswith("Sent to the bank")
    assert "Sent to the bank" in agent.get("/console/disputes").text
    assert audit_rows(shop, "disputes forward") == [(agent.audit_name, "portal of the bank")]
    payment = agent.get(f"/console/payments/{dispute.order_id}").text
    assert "The merchant’s response was sent to the bank" in payment


def test_an_unmatched_dispute_is_dismissed_only_in_the_state_that_the_page_showed(
    shop: Shop,
) -> None:
    server, agent = shop.api_server, create_person(shop.api_server, None, staff_role="support")
    dispute, now = shop.open_dispute(shop.create_paid_order()["id"]), server.app.clock()
    ids = {"merchant_id": shop.id, "order_id": dispute.order_id}
    order = server.tx(partial(orders.find, **ids))
    server.tx(lambda tx: world.report_dispute(tx, order, "OPENED", now, ref="ref 1"))
    path = "/console/needs/unmatched"

    def read_form() -> dict[str, str]:
        for form in agent.get(path).text.split("<form ")[1:]:
            fields = hidden_fields(form)
            if fields.get("merchant") == shop.id:
                return fields
        raise AssertionError

    form_before_the_report = read_form()
    refusal = agent.post(path, form_before_the_report | {"reason": " "})
    assert (refusal.status_code, "Say why" in refusal.text) == (400, True)
    server.tx(lambda tx: world.report_dispute(tx, order, "LOST", now + 1, ref="ref 1"))
    conflict = agent.post(path, form_before_the_report | {"reason": "as the letter says"})
    assert (conflict.status_code, "has changed since" in conflict.text) == (409, True)
    assert 'value="as the letter says"' in conflict.text
    response = agent.post(path, read_form() | {"reason": "as the letter says"})
    assert response.headers["location"].endswith(f"{path}?done=1")
    assert shop.id not in agent.get(path).text
    assert audit_rows(shop, "disputes dismiss") == [(agent.audit_name, "as the letter says")]
    repeated = agent.post(path, form_before_the_report | {"reason": "twice"})
    assert (repeated.status_code, "twice" in repeated.text) == (409, True)


def test_unmatched_disputes_in_any_currency_are_shown(shop: Shop) -> None:
    server, agent = shop.api_server, create_person(shop.api_server, None, staff_role="support")
    dispute, now = shop.open_dispute(shop.create_paid_order()["id"]), server.app.clock()
    for currency, minor in {"USD": 12345, "KWD": 9991, "ANG": 7771}.items():
        event = GatewayDisputeEvent(
            attempt_id=dispute.attempt_id,
            dispute_ref=f"ref {currency}",
            status="LOST",
            amount=Money(minor, currency),
        )
        apply_event = partial(
            disputes.apply_outcome,
            merchant_id=shop.id, gateway_event=event, now=now, gateway=dispute.gateway,
        )  # fmt: skip
        server.tx(apply_event)
    page = agent.get("/console/needs/unmatched")
    assert page.status_code == 200
    for text in ("$123.45", "9991 minor units of KWD", "7771 minor units of ANG"):
        assert text in page.text, text


def test_a_row_on_a_phone_shows_the_time_left_of_open_disputes_only(shop: Shop) -> None:
    server, agent = shop.api_server, create_person(shop.api_server, None, staff_role="support")
    now = server.app.clock()
    still_open, lost = (shop.open_dispute(shop.create_paid_order()["id"]) for _ in range(2))

    async def set_deadlines(tx: Tx) -> None:
        for dispute in (still_open, lost):
            await disputes.set_deadline(tx, shop.id, dispute.id, now + 4 * DAY_MS, now)
        await disputes.decide(tx, shop.id, lost.id, "lost", who="op", reason="the bank", now=now)

    server.tx(set_deadlines)
    page = agent.get("/console/disputes").text

    def cells_on_a_phone(dispute_id: str) -> dict[str, str]:
        """Return the column of each place of a row."""
        row = page.partition(f"/console/disputes/{dispute_id}")[0].rpartition("<tr")[2]
        cells = re.findall(r'data-label="(\w+)" class="([^"]+)"', row)
        return {
            name: place for name, kinds in cells for place in kinds.split()
            if place not in {"words", "number"}
        }  # fmt: skip

    places = {
        "Customer": "at-start", "Amount": "at-end", "Merchant": "below", "Status": "below-end"
    }  # fmt: skip
    assert cells_on_a_phone(still_open.id) == places | {"Deadline": "below"}
    assert cells_on_a_phone(lost.id) == places | {"Reason": "below"}


def test_the_list_shows_the_customer_of_each_dispute(shop: Shop) -> None:
    server, auditor = shop.api_server, create_person(shop.api_server, None, staff_role="auditor")
    other_shop = server.create_shop()
    for merchant, name in ((shop, "Ada <Own>"), (other_shop, "Bo <Other>")):
        order_id = merchant.create_paid_order()["id"]
        merchant.open_dispute(order_id)
        server.sql(
            "update orders set customer_name = $3, customer_email = $4"
            " where merchant_id = $1 and id = $2",
            merchant.id,
            order_id,
            name,
            f"{name[:2].lower()}@shop.example",
        )
    rows = re.findall(r'<tr role="row">.*?</tr>', auditor.get("/console/disputes").text, re.DOTALL)
    for merchant, name in ((shop, "Ada &lt;Own&gt;"), (other_shop, "Bo &lt;Other&gt;")):
        (row,) = (row for row in rows if name in row)
        assert f"/console/merchants/{merchant.id}" in row
        assert f"{name[:2].lower()}@shop.example" in row


def test_the_file_of_disputes_says_how_the_merchant_responded_and_how_it_ended(
    shop: Shop,
) -> None:
    server, auditor = shop.api_server, create_person(shop.api_server, None, staff_role="auditor")
    contested, silent = (shop.open_dispute(shop.create_paid_order()["id"]) for _ in range(2))
    now = server.app.clock()

    async def work(tx: Tx) -> None:
        who = "ann@shop.example (per_1)"
        await disputes.respond(tx, shop.id, contested.id, "CONTESTED", who=who, now=now)
        await disputes.decide(tx, shop.id, contested.id, "lost", who="op", reason="bank", now=now)

    server.tx(work)
    rows = {row["id"]: row for row in csv_rows(auditor.get("/console/disputes.csv"))}
    columns = ("response", "respondedBy", "respondedAt", "outcome")
    assert [rows[contested.id][column] for column in columns] == [
        "CONTESTED",
        "ann@shop.example",
        str(now),
        "LOST",
    ]
    assert [rows[silent.id][column] for column in columns] == ["", "", "", ""]


def test_the_outcome_is_recorded_on_the_page_of_the_dispute(shop: Shop) -> None:
    agent = create_person(shop.api_server, None, staff_role="support")
    auditor = create_person(shop.api_server, None, staff_role="auditor")
    won, lost = (shop.open_dispute(shop.create_paid_order()["id"]) for _ in range(2))
    path = f"/console/disputes/{won.id}"
    page = agent.get(path).text
    assert "The merchant keeps" in page
    assert f'action="{path}/dispute-won"' not in auditor.get(path).text
    form = form_fields(page, f"{path}/dispute-won")
    refusal = agent.post(f"{path}/dispute-won", form)
    assert (refusal.status_code, 'id="dispute-won-reason-error"' in refusal.text) == (400, True)
    form |= {"dispute-won-reason": "the bank <agreed>"}
    entries = {name: text for name, text in form.items() if name != "form_person"}
    assert auditor.post(f"{path}/dispute-won", entries).status_code == 403
    for _ in range(2):  # a double click submits the form twice
        response = agent.post(f"{path}/dispute-won", form)
        assert response.headers["location"] == f"{path}?done=dispute-won"
    page = agent.get(f"{path}?done=dispute-won").text
    assert "Dispute marked as won." in page
    assert "/dispute-" not in page.partition("<main")[2]
    late = agent.post(f"{path}/dispute-lost", form | {"dispute-lost-reason": "an old page"})
    assert (late.status_code, "has changed since" in late.text) == (409, True)
    path = f"/console/disputes/{lost.id}"
    form = form_fields(agent.get(path).text, f"{path}/dispute-lost")
    agent.post(f"{path}/dispute-lost", form | {"dispute-lost-reason": "no evidence"})
    assert f'action="{path}/dispute-recovered"' in agent.get(path).text
    rows = shop.api_server.sql(
        "select status, merchant_id from disputes where id = any($1) order by status",
        [won.id, lost.id],
    )
    assert [row["status"] for row in rows] == ["LOST", "WON"]
    actions = shop.api_server.sql(
        "select action, reason from audit_log where subject like $1", f"%{won.id}%"
    )
    assert {"action": "disputes win", "reason": "the bank <agreed>"} in actions
