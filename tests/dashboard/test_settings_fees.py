"""The page of fees and payouts: the operator's terms in words, and how money reaches the bank."""

import re

from dashboard.pages import text_of
from opentill import merchants, payouts
from support.api_server import Shop
from support.people import create_person


def _path(shop: Shop, subpage: str = "") -> str:
    return f"/dashboard/{shop.id}/settings{subpage}"


def test_fees_and_settlement_are_told_in_words(shop: Shop) -> None:
    viewer = create_person(shop.api_server, shop.id, "viewer")
    shop.api_server.tx(
        lambda tx: merchants.change(
            tx, shop.id, 1, who="ann", reason="agreed",
            fee_changes=("CREDIT_CARD:EUR=0.014+0.25", "ALIPAY=0.02"),
        )
    )  # fmt: skip
    text = text_of(viewer.get(_path(shop, "/fees")).text)
    for part in (
        "Alipay 2% $2.00 of a payment of $100.00",
        "Card in EUR 1.4% + €0.25 €1.65 of a payment of €100.00",
        "All other payments 4% $4.00 of a payment of $100.00",
        "days after the payment.",
        "Only owners can change these settings.",
    ):
        assert part in text, (part, text)


def test_the_page_of_fees_tells_when_and_where_payouts_arrive(shop: Shop) -> None:
    owner, developer = (
        create_person(shop.api_server, shop.id, role) for role in ("owner", "developer")
    )
    page = text_of(owner.get(_path(shop, "/fees")).text)
    assert "Minimum None: any available amount can be paid out. Currency USD" in page
    assert "Bank account Add a bank account Arrival No payout has arrived yet" in page
    shop.api_server.tx(
        lambda tx: merchants.change(
            tx, shop.id, 1, who="ann", reason="agreed", payout_minimum_minor=2500
        )
    )
    account = {"version": "0", "holder": "Ann", "account": "DE89 3704 0044 0532 0130 00"}
    assert owner.post(f"/dashboard/{shop.id}/payouts/account", account).status_code == 303
    payout = shop.create_payout(5000)
    arrived = payout.created_at + 7_200_000
    shop.api_server.tx(lambda tx: payouts.pay(tx, payout.id, "TRN-1", "sent", "op", arrived))
    html = owner.get(_path(shop, "/fees")).text
    page = text_of(html)
    assert "Schedule The operator decides when it pays out what is available. The last" in page
    assert "Minimum From $25.00 on. Currency USD" in page
    assert "Arrival The last ones took at most 2 hours to arrive." in page
    (shown,) = re.findall(r'<a href="[^"]*/payouts/account">(.*?)</a>', html)
    assert text_of(shown).endswith("3000")
    without = text_of(developer.get(_path(shop, "/fees")).text)
    assert "Minimum From $25.00 on." in without
    assert "Arrival" not in without  # for people who may see payouts
    assert shop.id in owner.get(_path(shop)).text.partition('id="id-title"')[2]
