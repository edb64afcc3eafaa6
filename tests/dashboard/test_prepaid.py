"""The page of the prepaid balance: its figures, movements and accounts, and moving money there."""

from collections.abc import Iterator

import pytest

from dashboard.pages import new_form_id, text_of
from opentill.gateways import Gateways
from opentill.gateways.account import GatewayAccount
from opentill.orders import Order, find
from support.api_server import Shop
from support.people import Visitor, create_person
from support.prepaid import adjust, read_prepaid, submit_direct
from support.world import report_payment

FEE = 40  # of 9.99 at 4 %


def path_of(shop: Shop) -> str:
    return f"/dashboard/{shop.id}/balance/prepaid"


def top_up(shop: Shop, kind: str, amount_minor: int) -> None:
    shop.api_server.tx(lambda tx: adjust(tx, shop.id, kind, amount_minor))


def pay_directly(shop: Shop) -> None:
    """Pay an order through an account of the merchant."""
    server, order_id = shop.api_server, shop.create_order()["id"]
    order: Order = server.tx(lambda tx: find(tx, shop.id, order_id))
    now = server.app.clock()
    attempt = server.tx(lambda tx: submit_direct(tx, order, now))
    assert attempt is not None
    server.tx(lambda tx: report_payment(tx, attempt, "SUCCEEDED", now))


@pytest.fixture
def own_account(shop: Shop) -> Iterator[GatewayAccount]:
    """An account of the merchant, as the server has loaded it."""
    gateways = shop.api_server.app.gateways
    assert isinstance(gateways, Gateways)
    account = GatewayAccount(
        id="gat_own", gateway="sandbox", label="Own bank", merchant_id=shop.id, livemode=False,
        status="ACTIVE", credential_hints="{}", previous_until=None, methods="",
        limit_currencies=[], smallest_minor=[], largest_minor=[], day_minor=[], day_number=[],
        cost_currencies=[], cost_rate_bp=[], cost_fixed_minor=[], priority=1, weight=1,
        break_below_percent=None, break_slower_ms=None, break_texts=[], break_minutes=1,
        broken_at=None, broken_reason=None, retry_at=None, revision=1, created_at=1, updated_at=1,
    )  # fmt: skip
    gateways.accounts[account.id] = account
    yield account
    del gateways.accounts[account.id]


@pytest.fixture
def owner(shop: Shop) -> Visitor:
    return create_person(shop.api_server, shop.id, "owner")


def test_the_page_shows_figures_accounts_and_movements(
    shop: Shop, owner: Visitor, own_account: GatewayAccount
) -> None:
    page = text_of(owner.get(path_of(shop)))
    assert "Top-ups and fees are listed here." in page
    assert "Own bank Needs prepaid balance" in page
    top_up(shop, "topup", 500)
    pay_directly(shop)
    page = text_of(owner.get(path_of(shop)))
    assert "Prepaid $4.60 Reserved $0.00" in page
    assert "Left for new payments $4.60" in page
    assert "Own bank Takes payments" in page
    assert "-$0.40" in page
    assert "Prepaid balance topped up" in page
    balance = text_of(owner.get(f"/dashboard/{shop.id}/balance"))
    assert "Prepaid $4.60 Pays the fees of payments to your own gateway accounts." in balance
    assert "$9.99" not in balance


def test_an_owner_previews_and_moves_available_money_once(shop: Shop, owner: Visitor) -> None:
    top_up(shop, "recharge", 2500)
    preview = owner.get(path_of(shop), params={"amount": "10.00"})
    assert "Available $25.00 → $15.00" in text_of(preview)
    assert "Prepaid $0.00 → $10.00" in text_of(preview)
    form_id = new_form_id(owner, f"{path_of(shop)}?amount=10.00")
    for _ in range(2):
        response = owner.post(path_of(shop), {"amount": "10.00", "form_id": form_id})
        assert response.status_code == 303
    assert shop.api_server.tx(lambda tx: read_prepaid(tx, shop.id)) == (1000, 0)
    rows = shop.api_server.sql(
        "select action, who from audit_log where merchant_id = $1 and action = 'balance prepay'",
        shop.id,
    )
    assert [row["who"] for row in rows] == [f"{owner.email} ({owner.person_id})"]


@pytest.mark.parametrize(
    ("amount", "error"),
    [
        ("25.01", "There is less than this in the available balance"),
        ("0", "Enter an amount above 0"),
        ("x", "Enter an amount above 0"),
    ],
)
def test_a_wrong_amount_moves_nothing(shop: Shop, owner: Visitor, amount: str, error: str) -> None:
    top_up(shop, "recharge", 2500)
    preview = owner.get(path_of(shop), params={"amount": amount})
    assert (preview.status_code, error in text_of(preview)) == (400, True)
    posted = owner.post(path_of(shop), {"amount": amount, "form_id": "a" * 32})
    assert posted.status_code in {400, 409}
    assert shop.api_server.tx(lambda tx: read_prepaid(tx, shop.id)) == (0, 0)


def test_only_owners_and_finance_move_money(shop: Shop) -> None:
    viewer = create_person(shop.api_server, shop.id, "viewer")
    top_up(shop, "recharge", 2500)
    assert "Move the money" not in viewer.get(path_of(shop), params={"amount": "1.00"}).text
    assert viewer.post(path_of(shop), {"amount": "1.00"}).status_code == 403


def test_the_home_page_says_when_the_prepaid_balance_is_used_up_or_low(
    shop: Shop, owner: Visitor, own_account: GatewayAccount
) -> None:
    home = f"/dashboard/{shop.id}/"
    used_up = "your own gateway accounts take no payments"
    low = "pays the fees of less than three days"
    assert used_up in owner.get(home).text
    top_up(shop, "topup", 2 * FEE)
    page = owner.get(home).text
    assert used_up not in page
    assert low not in page
    top_up(shop, "topup", 4 * FEE)
    for _ in range(4):
        pay_directly(shop)
    assert low not in owner.get(home).text  # two fees are left, three and a half days
    pay_directly(shop)
    assert low in owner.get(home).text
    pay_directly(shop)
    top_up(shop, "topup", FEE - 1)
    assert used_up in owner.get(home).text  # what is left pays no fee
    top_up(shop, "topup", 1)
    assert low in owner.get(home).text
