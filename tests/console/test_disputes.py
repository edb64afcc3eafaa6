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


def fields_of_form(page: str, action: str) -> dict[str, str]:
    """Return the hidden fields of the form with an action."""
    return hidden_fields(page.partition(f'action="{action}"')[2].partition("</form>")[0])


def test_staff_set_a_deadline_once_and_are_reminded_of_it(shop: Shop) -> None:
    agent = create_person(shop.api_server, None, staff_role="support")
    dispute = shop.open_dispute(shop.create_paid_order()["id"])
    place = f"/console/disputes/{dispute.id}"
    assert f'href="{place}"' in agent.get(f"/console/payments/{dispute.order_id}").text
    page = agent.get(place)
    assert (heading_of(page), "none named" in page.text) == ("Dispute of $9.99", True)
    form = fields_of_form(page.text, f"{place}/deadline") | {"reason": "the <bank> says so"}
    today = datetime.fromtimestamp(shop.api_server.app.clock() // 1000, UTC).date()
    day = str(today + timedelta(days=1))
    for until, reason, error in (
        (str(today - timedelta(days=1)), "late", "Enter a day from today on"),
        ("soon", "late", "Enter a day from today on"),
        (day, " ", "Say why"),
    ):
        refused = agent.post(f"{place}/deadline", form | {"until": until, "reason": reason})
        assert (refused.status_code, error in refused.text) == (400, True), until
        assert f'value="{until}"' in refused.text
    for _ in range(2):  # a double click
        done = agent.post(f"{place}/deadline", form | {"until": day})
        assert done.headers["location"].endswith(f"{place}?done=deadline")
    stored = shop.api_server.tx(lambda tx: disputes.find(tx, shop.id, dispute.id))
    deadline = datetime.fromtimestamp((stored.respond_by or 0) / 1000, UTC)
    assert (deadline.date(), f"{deadline:%T}") == (date.fromisoformat(day), "23:59:59")
    assert audit_rows(shop, "disputes deadline") == [(agent.audit_name, "the <bank> says so")]
    other = fields_of_form(page.text, f"{place}/deadline") | {"form_id": "0" * 32, "until": day}
    stale = agent.post(f"{place}/deadline", other | {"reason": "an old page"})
    assert (stale.status_code, "has changed since" in stale.text) == (409, True)
    assert 'value="an old page"' in stale.text
    assert f'href="{place}"' in agent.get("/console/needs/disputes").text


def test_disputes_of_all_merchants_are_listed_filtered_and_exported(shop: Shop) -> None:
    server, auditor = shop.api_server, create_person(shop.api_server, None, staff_role="auditor")
    other = server.create_shop()
    soon, lost = (
        shop.open_dispute(shop.create_paid_order()["id"]),
        shop.open_dispute(shop.create_paid_order()["id"]),
    )
    theirs = other.open_dispute(other.create_paid_order()["id"])
    now = server.app.clock()

    async def decide(tx: Tx) -> None:
        await disputes.decide(tx, shop.id, lost.id, "lost", who="op", reason="the bank", now=now)
        until = now + 2 * DAY_MS
        await tx.execute("update disputes set respond_by = $2 where id = $1", soon.id, until)

    server.tx(decide)
    place = "/console/disputes"

    def listed(query: str = "") -> list[str]:
        page = auditor.get(place + query).text
        ids = re.findall(rf'href="{place}/(dp_\w+)"', page)
        return [dispute_id for dispute_id in ids if dispute_id in {soon.id, lost.id, theirs.id}]

    assert listed() == [theirs.id, lost.id, soon.id]
    assert listed("?status=OPEN") == [theirs.id, soon.id]
    assert listed("?status=SOON") == [soon.id]
    sooner = now + DAY_MS
    server.sql("update disputes set respond_by = $2 where id = $1", theirs.id, sooner)
    assert listed("?status=SOON") == [theirs.id, soon.id], "the first deadline first"
    assert listed(f"?status=SOON&before={theirs.id}") == [soon.id]
    due = csv_rows(auditor.get(f"{place}.csv?status=SOON"))
    exported_ids = [row["id"] for row in due if row["id"] in {theirs.id, soon.id}]
    assert exported_ids == [theirs.id, soon.id]
    assert listed("?status=LOST") == [lost.id]
    assert listed("?status=WON") == []
    assert listed(f"?before={theirs.id}") == [lost.id, soon.id]
    assert listed("?to=2001-01-01") == []
    assert 'id="from-error"' in auditor.get(f"{place}?from=soon").text
    file = auditor.get(f"{place}.csv?status=LOST")
    rows = [row for row in csv_rows(file) if row["id"] == lost.id]
    assert [(row["merchantId"], row["merchant"], row["amount"]) for row in rows] == [
        (shop.id, "Harbour Books", "9.99")
    ]
    assert theirs.id not in file.text


def test_staff_read_the_evidence_and_write_notes_that_the_merchant_reads(shop: Shop) -> None:
    server, agent = shop.api_server, create_person(shop.api_server, None, staff_role="support")
    dispute = shop.open_dispute(shop.create_paid_order()["id"])
    place = f"/console/disputes/{dispute.id}"
    evidence = server.run(
        disputes.add_evidence(
            server.app.db, shop.id, dispute.id, "r.pdf", PDF, actor=TESTER, now=server.app.clock()
        )
    )
    page = agent.get(place).text
    assert f'href="{place}/evidence/{evidence.id}"' in page
    file = agent.get(f"{place}/evidence/{evidence.id}")
    assert (file.content, file.headers["content-type"]) == (PDF, "application/pdf")
    assert file.headers["content-disposition"].startswith("attachment")
    form = fields_of_form(page, f"{place}/notes")
    assert agent.post(f"{place}/notes", form | {"note": " "}).status_code == 400
    for _ in range(2):
        done = agent.post(f"{place}/notes", form | {"note": "The bank wants\nproof."})
        assert done.headers["location"].endswith(f"{place}?done=note")
    changed = agent.post(f"{place}/notes", form | {"note": "Another."})
    assert (changed.status_code, "was sent before" in changed.text) == (422, True)
    assert ">\nAnother.</textarea>" in changed.text
    owner = create_person(server, shop.id, "owner")
    merchants_page = owner.get(f"/dashboard/{shop.id}/disputes/{dispute.id}").text
    assert merchants_page.count("The bank wants\nproof.") == 1
    assert [who for who, _ in audit_rows(shop, "disputes note")] == [agent.audit_name]


def test_an_unmatched_dispute_is_dismissed_only_in_the_state_that_was_shown(shop: Shop) -> None:
    server, agent = shop.api_server, create_person(shop.api_server, None, staff_role="support")
    dispute, now = shop.open_dispute(shop.create_paid_order()["id"]), server.app.clock()
    ids = {"merchant_id": shop.id, "order_id": dispute.order_id}
    order = server.tx(partial(orders.find, **ids))
    server.tx(lambda tx: world.report_dispute(tx, order, "OPENED", now, ref="ref 1"))
    place = "/console/needs/unmatched"

    def form() -> dict[str, str]:
        for inner in agent.get(place).text.split("<form ")[1:]:
            fields = hidden_fields(inner)
            if fields.get("merchant") == shop.id:
                return fields
        raise AssertionError

    first = form()
    refused = agent.post(place, first | {"reason": " "})
    assert (refused.status_code, "Say why" in refused.text) == (400, True)
    server.tx(lambda tx: world.report_dispute(tx, order, "LOST", now + 1, ref="ref 1"))
    stale = agent.post(place, first | {"reason": "as the letter says"})
    assert (stale.status_code, "has changed since" in stale.text) == (409, True)
    assert 'value="as the letter says"' in stale.text
    done = agent.post(place, form() | {"reason": "as the letter says"})
    assert done.headers["location"].endswith(f"{place}?done=1")
    assert shop.id not in agent.get(place).text
    assert audit_rows(shop, "disputes dismiss") == [(agent.audit_name, "as the letter says")]
    again = agent.post(place, first | {"reason": "twice"})
    assert (again.status_code, "twice" in again.text) == (409, True)


def test_unmatched_disputes_of_any_amount_are_shown(shop: Shop) -> None:
    server, agent = shop.api_server, create_person(shop.api_server, None, staff_role="support")
    dispute, now = shop.open_dispute(shop.create_paid_order()["id"]), server.app.clock()
    for currency, minor in {"USD": 12345, "KWD": 9991, "ANG": 7771}.items():
        event = GatewayDisputeEvent(
            attempt_id=dispute.attempt_id,
            dispute_ref=f"ref {currency}",
            status="LOST",
            amount=Money(minor, currency),
        )
        work = partial(
            disputes.apply_outcome,
            merchant_id=shop.id, gateway_event=event, now=now, gateway=dispute.gateway,
        )  # fmt: skip
        server.tx(work)
    page = agent.get("/console/needs/unmatched")
    assert page.status_code == 200
    for text in ("$123.45", "9991 minor units of KWD", "7771 minor units of ANG"):
        assert text in page.text, text
