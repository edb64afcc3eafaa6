"""The list of emails of all merchants and staff."""

import re
from itertools import count as count_from
from typing import Final

import msgspec

from console.console_pages import audit_rows
from opentill import mail
from opentill.portal import lists
from support.api_server import Shop
from support.people import create_person

NUMBERS: Final = count_from(1000)  # for ids that no other test has


def add_mails(shop: Shop, merchant_id: str, topic: str, count: int, status: str = "SENT") -> None:
    result = "550 no such mailbox" if status == "FAILED" else ""
    shop.api_server.sql(
        "insert into mails select $1, 'mail_' || lpad($6::text || n, 26, '0'), $2, n,"
        " 'ann@example.com', null, 'en', '{}', null, n, $3, 1, null, $4, n, n + 9000000000000"
        " from generate_series(1, $5::int) n",
        merchant_id,
        topic,
        status,
        result,
        count,
        str(next(NUMBERS)),
    )


def test_staff_see_emails_of_merchants_and_staff_with_their_errors(shop: Shop) -> None:
    add_mails(shop, shop.id, "receipt", 1, "FAILED")
    add_mails(shop, "", "books_violated", 1)
    support = create_person(shop.api_server, None, staff_role="support")
    page = support.get("/console/mails").text
    assert re.search(r'class="row-link" href="/console/mails/mail_\w+">Receipt</a>', page)
    assert re.search(
        r'class="row-link" href="/console/mails/mail_\w+">Ledger check failed</a>', page
    )
    assert "550 no such mailbox" in page
    assert "Ledger check failed" in page
    failed = support.get("/console/mails?status=FAILED").text
    assert "Receipt</a>" in failed
    assert "Ledger check failed" not in failed


def test_an_email_is_opened_inside_the_console(shop: Shop) -> None:
    server, now = shop.api_server, shop.api_server.app.clock()
    order = shop.create_paid_order(customerEmail="ann@example.com")
    settings = msgspec.structs.replace(
        server.app.settings, smtp_url="smtp://127.0.0.1:9", mail_from="pay@example.com"
    )
    mail_id = server.tx(
        lambda tx: mail.send_receipt(tx, settings, shop.id, order["id"], "console", now)
    ).id
    support = create_person(server, None, staff_role="support")
    path = f"/console/mails/{mail_id}"
    assert f'href="{path}"' in support.get("/console/mails").text
    page = support.get(path)
    assert 'href="/console/mails" aria-current="page"' in page.text
    assert f'<iframe src="{path}/html" sandbox=""' in page.text
    assert f'href="/console/payments/{order["id"]}"' in page.text
    assert "frame-src 'self'" in page.headers["content-security-policy"]
    frame = support.get(f"{path}/html")
    assert frame.headers["content-security-policy"].endswith("; sandbox")
    assert "Your receipt is attached as a PDF." in frame.text
    assert support.get(f"{path[:-1]}{'0' if path[-1] != '0' else '1'}").status_code == 404
    owner = create_person(server, shop.id, "owner")
    for suffix in ("", "/html"):
        assert owner.get(path + suffix).status_code == 404
    visits = [who for who, _ in audit_rows(shop, "people visit")]
    assert support.audit_name in visits


def test_the_list_goes_on_with_older_emails(shop: Shop) -> None:
    add_mails(shop, shop.id, "refund", lists.SIZE + 1)
    support = create_person(shop.api_server, None, staff_role="support")
    page = support.get("/console/mails?status=SENT").text
    older = re.search(r'rel="next" href="([^"]+)"', page)
    assert older is not None, page
    second = support.get(older[1].replace("&amp;", "&")).text
    first_ids = set(re.findall(r"/mails/(mail_\w+)", page))
    second_ids = set(re.findall(r"/mails/(mail_\w+)", second))
    assert first_ids
    assert second_ids
    assert not first_ids & second_ids
