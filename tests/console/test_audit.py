"""The audit log in the console: search, pages, export and verification."""

import re

from opentill import merchants
from opentill.db.database import Tx
from opentill.merchants import Actor
from support.api_server import Shop
from support.people import create_person
from support.spreadsheets import csv_rows


def test_the_audit_log_is_searched_paged_and_exported(shop: Shop) -> None:
    auditor = create_person(shop.api_server, None, staff_role="auditor")
    now = shop.api_server.app.clock()
    other_shop = shop.api_server.create_shop()

    async def record_actions(tx: Tx) -> None:
        for number in range(60):
            actor = Actor("grace", f"reason {number:02} of 100%")
            merchant_id = shop.id if number % 2 else other_shop.id
            await merchants.record_audit(tx, actor, "test act", merchant_id, "=1+1", now)
        actor = Actor("heidi", "a reason of her own")
        await merchants.record_audit(tx, actor, "test act", shop.id, "a subject", now)

    shop.api_server.tx(record_actions)
    filters = {"query": "OF 100%", "merchant": shop.id}
    page = auditor.get("/console/audit", params=filters).text
    assert re.findall(r"reason (\d\d)", page) == [f"{number:02}" for number in range(59, 0, -2)]
    newest_page = auditor.get("/console/audit", params={"query": "of 100%"}).text
    (older_url,) = re.findall(r'rel="next" href="([^"]+)"', newest_page)
    older_page = auditor.get(older_url.replace("&amp;", "&")).text
    assert re.findall(r"reason (\d\d)", newest_page + older_page) == [
        f"{number:02}" for number in range(59, -1, -1)
    ]
    for query in ("HEID", "her own", "a subj"):
        rows = csv_rows(auditor.get("/console/audit.csv", params=filters | {"query": query}))
        assert [row["who"] for row in rows] == ["heidi"]
    rows = csv_rows(auditor.get("/console/audit.csv", params=filters))
    assert [row["reason"][7:9] for row in rows] == [f"{number:02}" for number in range(59, 0, -2)]
    assert {row["subject"] for row in rows} == {"'=1+1"}
    for query, sentence in (
        ("from=2026-02-01&to=2026-01-01", "The last day must not be before the first one"),
        ("from=soon&to=", "Enter a day as 2026-01-31"),
        ("merchant=nobody", "No merchant has this ID or name"),
    ):
        refusal = auditor.get(f"/console/audit.csv?{query}")
        page, _, page_query = refusal.headers["location"].partition("?")
        assert (page, sorted(page_query.split("&"))) == ("/console/audit", sorted(query.split("&")))
        assert sentence in auditor.get(refusal.headers["location"]).text
    finance = create_person(shop.api_server, None, staff_role="finance")
    assert finance.get("/console/audit").status_code == 403


def test_the_chain_is_verified_and_an_altered_row_is_named(shop: Shop) -> None:
    admin = create_person(shop.api_server, None, staff_role="admin")
    verified = admin.get("/console/audit/verify?now=1&expect=")
    assert "entries are unchanged." in verified.text
    (head,) = re.findall(r"<code>(\d+:[0-9a-f]{64})</code>", verified.text)
    assert "entries are unchanged." in admin.get(f"/console/audit/verify?now=1&expect={head}").text
    another_head = head[:-4] + ("1111" if head.endswith("0000") else "0000")
    page = admin.get(f"/console/audit/verify?now=1&expect={another_head}").text
    assert f"Entry {head.partition(':')[0]} was changed" in page
    assert "Enter the whole proof" in admin.get("/console/audit/verify?now=1&expect=7").text
    form = admin.get("/console/audit/verify").text  # showing the form verifies nothing
    assert "are unchanged" not in form
