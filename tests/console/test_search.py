"""The search in the console finds everything of all merchants that the role may see."""

import re
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Final

import pytest

from dashboard.pages import text_of
from opentill import payouts
from opentill.merchants import queries as merchant_queries
from opentill.orders.search import across_merchants
from opentill.orders.search import jobs as indexing
from opentill.people import STAFF_ROLES, StaffRole, staff_may
from opentill.products import queries as product_queries
from support import world
from support.api_server import Shop
from support.people import Visitor, create_person

PATH: Final = "/console/search"
_GROUP: Final = re.compile(r'<section class="search-group".*?</section>', re.DOTALL)
_HEADING: Final = re.compile(r"<h2 [^>]*>(.*?)</h2>", re.DOTALL)


def search(visitor: Visitor, text: str) -> dict[str, str]:
    """Return the text of each group that a search finds, by its heading without the number."""
    response = visitor.get(PATH, params={"q": text})
    assert response.status_code == 200, response.headers
    assert not re.search(r"<script(?! src=)|\sstyle=|\son\w+=", response.text)
    groups = dict[str, str]()
    for group in _GROUP.findall(response.text):
        heading = _HEADING.search(group)
        assert heading is not None
        groups[re.sub(r" [0-9,]+$", "", text_of(heading[1]))] = text_of(group)
    assert groups or "the name of a merchant, product or colleague" in response.text
    return groups


def test_a_text_is_searched_at_all_merchants(shop: Shop) -> None:
    shops = [shop, shop.api_server.create_shop()]
    agent = create_person(shop.api_server, None, staff_role="auditor")
    for number, merchant in enumerate(shops):
        product = merchant.create_product(name="Quartz kettle", price="31.70")["id"]
        for customer in range(2):
            merchant.create_order(
                product,
                customerEmail=f"quentin.x{customer}@shop{number}.example",
                customerName="Quentin Xu",
                metadata={"crate": f"Q-{number}"},
            )
    for is_indexed in (False, True):
        if is_indexed:
            shop.api_server.run(indexing.index_orders(shop.api_server.app.db, at_least=1))
        for text, number in (
            ("quentin", 4), ("Xu", 0), ("xu quen", 4), ("x1@shop1", 1), ("$31.70", 4), ("31,70", 4),
            ("€31.70", 0), ("q-1", 2), ("quentin.x0@shop0.example", 1),
        ):  # fmt: skip
            groups = search(agent, text)
            assert groups.get("Payments", "").count("Quartz kettle") == number, text
        groups = search(agent, "quentin")
        assert groups["Customers"].count("Quentin Xu") == 4
        assert "quentin.x1@shop1.example" in groups["Customers"]
        assert search(agent, "quartz ket")["Products"].count("$31.70") == 2
    page = agent.get("/console/payments", params={"query": "quentin"}).text
    assert len(set(re.findall(r"/console/payments/(order_\w+)", page))) == 4
    assert "Newest matches, of all merchants" in page


def test_an_id_leads_straight_to_its_page_at_any_merchant(shop: Shop) -> None:
    agent = create_person(shop.api_server, None, staff_role="auditor")
    product, order = shop.create_product()["id"], shop.create_paid_order()
    number = world.new_reference()
    shop.refund(order["id"], amount="1.00", refundNo=number)
    payout, endpoint = shop.create_payout(), shop.create_endpoint()["id"]
    for text, path in (
        (order["id"], f"/console/payments/{order['id']}"),
        (f"\u2068{order['checkoutSessionId']}\u2069", f"/console/payments/{order['id']}"),
        (number, f"/console/payments/{order['id']}"),
        (shop.id, f"/console/merchants/{shop.id}"),
        (product, f"/dashboard/{shop.id}/products/{product}"),
        (payout.id, f"/console/payouts/{payout.id}"),
        (endpoint, f"/dashboard/{shop.id}/developers/webhooks/{endpoint}"),
    ):
        assert agent.get(PATH, params={"q": text}).headers.get("location") == path, text
    assert payout.reference in search(agent, payout.reference)["Payouts"]
    assert not search(agent, "order_00000000000000000000000000")
    support = create_person(shop.api_server, None, staff_role="support")
    assert not search(support, "per_00000000000000000000000000")


def test_references_of_payouts_runs_and_differences_and_addresses_of_staff_are_found(
    shop: Shop,
) -> None:
    server, now = shop.api_server, shop.api_server.app.clock()
    auditor = create_person(server, None, staff_role="auditor")
    payout, number = shop.create_payout(), world.new_reference()
    server.tx(lambda tx: payouts.pay(tx, payout.id, f"B-{number}", "sent", "ann", now))
    server.sql(
        "insert into payout_runs (id, reference, status, currency, fee_minor, pay_on, from_holder,"
        " from_number, from_country, from_bic, from_bank_code, from_address, reason, created_by,"
        " created_at) values ($1, $2, 'OPEN', 'EUR', 0, '2026-11-27', 'Op', '', 'DE', '', '', '{}',"
        " 'weekly', 'ann', $3)",
        f"run_{number}", f"W-{number}", now,
    )  # fmt: skip
    server.sql(
        "insert into reconciliation_files (id, source, sha256, name, status, rows, matched, found,"
        " who, created_at) values ($1, 'bank', $2, 'a.csv', 'OPEN', 0, 0, 0, 'ann', $3)",
        f"rec_{number}", sha256(number.encode()).hexdigest(), now,
    )  # fmt: skip
    server.sql(
        "insert into reconciliation_differences (id, file_id, source, what, kind, reference,"
        " merchant_id, ours, theirs, created_at) values ($1, $2, 'bank', 'missing in ledger',"
        " 'payout', $3, '', '', '7.00 EUR', $4)",
        f"dif_{number}", f"rec_{number}", f"RENT-{number}", now,
    )  # fmt: skip
    assert payout.reference in search(auditor, f"B-{number}")["Payouts"]
    assert f"W-{number}" in search(auditor, f"W-{number}")["Payout runs"]
    assert f"RENT-{number}" in search(auditor, f"RENT-{number}")["Reconciliation"]
    assert auditor.email in search(auditor, auditor.email.upper())["People"]
    # Support has no page of staff.
    support = create_person(server, None, staff_role="support")
    assert "People" not in search(support, auditor.email)


@pytest.mark.parametrize("role", STAFF_ROLES)
def test_an_id_leads_to_a_page_that_the_role_may_open_or_to_nothing(
    shop: Shop, role: StaffRole
) -> None:
    staff = create_person(shop.api_server, None, staff_role=role)
    product, order = shop.create_product()["id"], shop.create_paid_order()
    refund = shop.refund(order["id"], amount="1.00")
    link = shop.data("POST", "/v1/payment-links", json={"productId": product})
    dispute, payout = shop.open_dispute(order["id"]), shop.create_payout()
    for id_ in (
        shop.id, product, order["id"], order["checkoutSessionId"], refund["id"], link["id"],
        dispute.id, payout.id, shop.create_endpoint()["id"], staff.person_id,
    ):  # fmt: skip
        response = staff.get(PATH, params={"q": id_})
        if response.status_code == 303:
            assert staff.get(response.headers["location"]).status_code == 200, id_
        else:
            assert response.status_code == 200
            assert "Nothing matches" in text_of(response.text), id_


@pytest.mark.parametrize("text", ["%", "_", "\\", "' or 1=1 --", "\0", "()&|!:*", "x" * 200, "!!"])
def test_a_hostile_text_finds_nothing(shop: Shop, text: str) -> None:
    shop.create_order(customerName="Adelheid Quist")
    agent = create_person(shop.api_server, None, staff_role="auditor")
    # Orders of other tests may have a percent sign in their texts.
    assert "Adelheid Quist" not in str(search(agent, text))


def test_a_long_text_is_refused(shop: Shop) -> None:
    agent = create_person(shop.api_server, None, staff_role="auditor")
    for path, name in ((PATH, "q"), ("/console/payments", "query")):
        page = agent.get(path, params={name: "x" * 201})
        assert "Enter at most 200 characters" in page.text


def test_the_page_says_that_there_may_be_more_matches(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = create_person(shop.api_server, None, staff_role="auditor")
    for number in range(3):
        shop.create_order(customerEmail=f"yvonne{number}@example.com")
    shop.api_server.run(indexing.index_orders(shop.api_server.app.db, at_least=1))
    for limit, number in (("_MOST_PLACES", 2), ("_CUSTOMERS_OF_MERCHANT", 2), ("_MOST_PENDING", 0)):
        with monkeypatch.context() as patch:
            patch.setattr(across_merchants, limit, number)
            page = agent.get("/console/payments", params={"query": "yvonne"}).text
        assert "There may be more matches" in page, limit
    assert "There may be more" not in agent.get("/console/payments?query=yvonne").text


def test_names_of_products_and_merchants_are_those_of_all_merchants(shop: Shop) -> None:
    shop.create_product(name="Zebra's stripes")
    for text, number in (("zebra", 1), ("zeb", 1), ("stripes zebra", 1), ("ebra", 0), ("", 0)):
        matches = shop.api_server.tx(
            lambda tx, text=text: product_queries.SEARCH_ALL.all(tx, text=text, limit=9)
        )
        assert len(matches) == number
    rows = shop.api_server.tx(merchant_queries.ALL_NAMES.all)
    assert shop.id in {row.id for row in rows}


def test_the_statement_of_a_merchant_is_found_and_linked_from_its_page(shop: Shop) -> None:
    name = f"Lantern {shop.id[-8:]}"
    shop.api_server.sql("update merchants set name = $1 where id = $2", name, shop.id)
    finance = create_person(shop.api_server, None, staff_role="finance")
    for text in (f"statement {name}", f"{name} Statements", f"state {name}"):
        assert name in search(finance, text)["Pages"]
    assert "statement" not in search(finance, name)["Pages"]
    page = finance.get("/console/search", params={"q": f"statement {name}"}).text
    (address,) = re.findall(rf'href="(/dashboard/{shop.id}/balance/statement[^"]*)"', page)
    today = datetime.fromtimestamp(shop.api_server.app.clock() / 1000, UTC).date()
    end = today.replace(day=1) - timedelta(days=1)
    assert f"from={end.replace(day=1)}" in address
    assert f"to={end}" in address
    place = f"/console/merchants/{shop.id}"
    assert f'href="{address}"' not in finance.get(place).text  # it did not exist last month
    shop.api_server.sql(
        "update merchants set created_at = created_at - 40 * 86400000::bigint where id = $1",
        shop.id,
    )
    assert finance.get(place).text.count(f'href="{address}"') == 2
    assert finance.get(address.replace("&amp;", "&")).status_code == 200
    support = create_person(shop.api_server, None, staff_role="support")
    may_read = staff_may("support", "balance.read")
    assert ("balance/statement" in support.get(f"/console/merchants/{shop.id}").text) == may_read


def _leads(visitor: Visitor, text: str) -> list[str]:
    """Return the addresses of the results in the page of a search."""
    page = visitor.get(PATH, params={"q": text}).text
    return re.findall(r'class="search-hit" href="([^"]+)"', page)


def test_pages_of_the_console_are_found_by_title_and_by_what_one_does_there(shop: Shop) -> None:
    admin = create_person(shop.api_server, None, staff_role="admin")
    for text, path in (
        ("reconcil", "reconciliation"), ("bank file", "payout-runs"), ("PAIN", "payout-runs"),
        ("rates", "rates"), ("trial", "trial-balance"), ("settlement report", "reconciliation"),
        ("second factor", "people"), ("add an account", "gateway-accounts"), ("verify", "audit"),
    ):  # fmt: skip
        assert f"/console/{path}" in _leads(admin, text), text
    assert "/console/people" in _leads(admin, "staff")
    support = create_person(shop.api_server, None, staff_role="support")
    assert "/console/people" not in _leads(support, "staff")


def test_what_one_does_with_a_merchant_is_found_with_its_name(shop: Shop) -> None:
    name = f"Saltmarsh {shop.id[-8:]}"
    shop.api_server.sql("update merchants set name = $1 where id = $2", name, shop.id)
    admin = create_person(shop.api_server, None, staff_role="admin")
    place = f"/console/merchants/{shop.id}"
    assert f"{place}/standing?sheet=suspended" in _leads(admin, f"suspend {name}")
    assert f"{place}/standing?sheet=closed" in _leads(admin, f"{name} close")
    assert f"{place}/terms" in _leads(admin, f"fees {name}")
    # The only merchant of a name comes with the pages on which staff act.
    pages = ("", "/standing", "/terms", "/adjustments")
    assert _leads(admin, name) == [f"{place}{page}" for page in pages]
    form = admin.get(f"{place}/standing?sheet=suspended").text
    assert '<dialog class="sheet" id="suspended" popover open' in form
    support = create_person(shop.api_server, None, staff_role="support")
    assert not [lead for lead in _leads(support, f"suspend {name}") if "sheet=" in lead]
    assert f'href="{place}/standing">Status</a>' in admin.get(place).text
