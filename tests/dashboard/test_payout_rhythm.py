"""All pages say in the same words when the next payout is expected."""

from typing import Final
from zoneinfo import ZoneInfo

import msgspec
import pytest

from dashboard.pages import text_of
from opentill.dashboard import payout_facts
from opentill.web.language import Localizer
from support.api_server import Shop
from support.people import create_person
from support.world import NOW

_DAY_MS: Final = 24 * 3_600_000
_WEEKLY: Final = "Payouts are usually created every 7 days."
_DECIDES: Final = "The operator decides when it pays out what is available."


@pytest.mark.parametrize(
    ("days_ago", "text"),
    [
        ([3, 10, 17], f"{_WEEKLY} The next one is expected on Jun 19."),
        ([8, 15, 22, 29], _WEEKLY),  # the next one is late, so no day is promised
        (
            [0, 1, 2],
            "Payouts are usually created every day. The next one is expected on Jun 16.",
        ),
        ([3, 10], _DECIDES),
        ([3, 10, 18], _DECIDES),
        ([1, 1, 1], _DECIDES),
        ([], _DECIDES),
    ],
)
def test_a_rhythm_needs_three_payouts_that_are_equally_far_apart(
    shop: Shop, days_ago: list[int], text: str
) -> None:
    payout = shop.create_payout(100)
    newest = [msgspec.structs.replace(payout, created_at=NOW - days * _DAY_MS) for days in days_ago]
    english = Localizer("merchant", "en")
    assert payout_facts.find_schedule(newest, english, ZoneInfo("UTC"), NOW) == text


def test_the_pages_of_payouts_name_the_rhythm(shop: Shop) -> None:
    for days in (14, 7, 0):
        payout = shop.create_payout(1000)
        created_at = payout.created_at - days * _DAY_MS
        shop.api_server.sql(
            "update payouts set created_at = $1 where id = $2", created_at, payout.id
        )
    owner = create_person(shop.api_server, shop.id, "owner")
    for path in ("payouts", "settings/fees"):
        assert _WEEKLY in text_of(owner.get(f"/dashboard/{shop.id}/{path}"))


def test_pages_without_a_rhythm_say_that_the_operator_decides(shop: Shop) -> None:
    shop.create_paid_order()
    owner = create_person(shop.api_server, shop.id, "owner")
    for path in ("", "payouts", "settings/fees"):
        assert _DECIDES in text_of(owner.get(f"/dashboard/{shop.id}/{path}"))
