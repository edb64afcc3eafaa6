"""The delivery log lists events and deliveries, newest first, at a bounded cost for each page."""

import pytest

from opentill import webhooks
from opentill.webhooks import LogQuery, delivery_log
from opentill.webhooks.model import KEPT_ATTEMPTS
from support.webhook_harness import WebhookHarness


async def test_pages_have_no_gaps_and_a_rare_filter_continues(
    harness: WebhookHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    merchant_id = await harness.create_merchant()
    endpoint, _ = await harness.create_endpoint(merchant_id, "http://127.0.0.1:4000/")
    await harness.emit(merchant_id, kind="payout.paid")
    await harness.emit(merchant_id, 6)
    expected = [row["id"] for row in await harness.rows("select id from events order by id desc")]
    monkeypatch.setattr(delivery_log, "_MAX_SCANNED", 3)
    async with harness.db.connection() as tx:
        event_ids, delivered_ids, before = list[str](), list[str](), ""
        while True:
            query = LogQuery(before=before, size=2)
            events = await webhooks.list_events(tx, merchant_id, None, query)
            deliveries = await webhooks.list_deliveries(tx, endpoint, None, query)
            event_ids += [event.id for event in events.items]
            delivered_ids += [item.delivery.event_id for item in deliveries.items]
            assert events.before == deliveries.before
            if not (before := events.before):
                break
        assert (event_ids, delivered_ids) == (expected, expected)
        pages, before = list[list[str]](), ""
        while True:
            page = await webhooks.list_events(
                tx, merchant_id, "payout.paid", LogQuery(before=before)
            )
            pages.append([event.type for event in page.items])
            if not (before := page.before):
                break
        assert pages == [[], [], ["payout.paid"]]
        later = LogQuery(within=(harness.now() + 60_000, 2**62))
        assert (await webhooks.list_deliveries(tx, endpoint, "PENDING", later)).items == []


async def test_a_delivery_shows_its_newest_attempts_oldest_first(
    harness: WebhookHarness,
) -> None:
    """Resends can add any number of attempts to a delivery."""
    merchant_id = await harness.create_merchant()
    created = [
        await harness.create_endpoint(merchant_id, f"http://127.0.0.1:4000/{n}") for n in range(2)
    ]
    endpoint, other_endpoint = (row for row, _ in created)
    await harness.emit(merchant_id, 3)
    with_many, with_few, with_none = [
        row["id"] for row in await harness.rows("select id from events order by id")
    ]
    for target, event, count in (
        (endpoint, with_many, 300), (endpoint, with_few, 3), (other_endpoint, with_many, 1),
    ):  # fmt: skip
        await harness.rows(
            "insert into delivery_attempts select $1, $2, $3, n, 1, 1, 'refused', 500, '', '', ''"
            " from generate_series(1, $4) as n",
            merchant_id, target.id, event, count,
        )  # fmt: skip
    newest_numbers = list(range(301 - KEPT_ATTEMPTS, 301))
    async with harness.db.connection() as tx:
        page = await webhooks.list_deliveries(tx, endpoint, None, LogQuery())
        numbers_by_event = {
            item.delivery.event_id: [attempt.number for attempt in item.attempts]
            for item in page.items
        }
        assert numbers_by_event == {
            with_many: newest_numbers, with_few: [1, 2, 3], with_none: [],
        }  # fmt: skip
        _, deliveries = await webhooks.find_event(tx, merchant_id, with_many)
        numbers_by_endpoint = {
            id_: [attempt.number for attempt in item.attempts] for id_, item in deliveries.items()
        }
        assert numbers_by_endpoint == {endpoint.id: newest_numbers, other_endpoint.id: [1]}
        latest = await webhooks.list_latest_deliveries(tx, endpoint, None, 10)
        assert numbers_by_event == {
            delivery.event_id: [attempt.number for attempt in attempts]
            for delivery, attempts in latest
        }
