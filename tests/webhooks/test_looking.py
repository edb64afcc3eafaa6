"""What people look at: page by page from the newest, each page at the same cost."""

import pytest

from opentill import webhooks
from opentill.webhooks import Which, looking
from opentill.webhooks.model import KEPT_ATTEMPTS
from support.webhook_harness import WebhookHarness


async def test_pages_go_back_without_a_gap_and_a_rare_filter_goes_on(
    harness: WebhookHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    merchant_id = await harness.merchant()
    endpoint, _ = await harness.endpoint(merchant_id, "http://127.0.0.1:4000/")
    await harness.emit(merchant_id, kind="payout.paid")
    await harness.emit(merchant_id, 6)
    expected = [row["id"] for row in await harness.rows("select id from events order by id desc")]
    monkeypatch.setattr(looking, "_LOOKED_AT", 3)
    async with harness.db.connection() as tx:
        seen, sent, before = list[str](), list[str](), ""
        while True:
            which = Which(before=before, size=2)
            events = await webhooks.look_at_events(tx, merchant_id, None, which)
            deliveries = await webhooks.look_at_deliveries(tx, endpoint, None, which)
            seen += [one.id for one in events.items]
            sent += [one.delivery.event_id for one in deliveries.items]
            assert events.before == deliveries.before
            if not (before := events.before):
                break
        assert (seen, sent) == (expected, expected)
        pages, before = list[list[str]](), ""
        while True:
            found = await webhooks.look_at_events(
                tx, merchant_id, "payout.paid", Which(before=before)
            )
            pages.append([one.type for one in found.items])
            if not (before := found.before):
                break
        assert pages == [[], [], ["payout.paid"]]
        later = Which(within=(harness.now() + 60_000, 2**62))
        assert (await webhooks.look_at_deliveries(tx, endpoint, "PENDING", later)).items == []


async def test_of_each_delivery_the_newest_attempts_are_looked_at_oldest_first(
    harness: WebhookHarness,
) -> None:
    """However many there are: whoever sends events again makes one each time."""
    merchant_id = await harness.merchant()
    made = [await harness.endpoint(merchant_id, f"http://127.0.0.1:4000/{n}") for n in range(2)]
    one, other = (endpoint for endpoint, _ in made)
    await harness.emit(merchant_id, 3)
    many, few, none = [row["id"] for row in await harness.rows("select id from events order by id")]
    for endpoint, event, count in ((one, many, 300), (one, few, 3), (other, many, 1)):
        await harness.rows(
            "insert into delivery_attempts select $1, $2, $3, n, 1, 1, 'refused', 500, '', '', ''"
            " from generate_series(1, $4) as n",
            merchant_id, endpoint.id, event, count,
        )  # fmt: skip
    last = list(range(301 - KEPT_ATTEMPTS, 301))
    async with harness.db.connection() as tx:
        page = await webhooks.look_at_deliveries(tx, one, None, Which())
        shown = {sent.delivery.event_id: [a.number for a in sent.attempts] for sent in page.items}
        assert shown == {many: last, few: [1, 2, 3], none: []}
        _, sent_to = await webhooks.look_at_event(tx, merchant_id, many)
        numbers = {id_: [a.number for a in sent.attempts] for id_, sent in sent_to.items()}
        assert numbers == {one.id: last, other.id: [1]}
        listed = await webhooks.deliveries(tx, one, None, 10)
        assert {d.event_id: [a.number for a in attempts] for d, attempts in listed} == shown
