"""The delivery log: pages from the newest, each at a bounded cost."""

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
        seen, sent, before = list[str](), list[str](), ""
        while True:
            query = LogQuery(before=before, size=2)
            events = await webhooks.list_events(tx, merchant_id, None, query)
            deliveries = await webhooks.list_deliveries(tx, endpoint, None, query)
            seen += [one.id for one in events.items]
            sent += [one.delivery.event_id for one in deliveries.items]
            assert events.before == deliveries.before
            if not (before := events.before):
                break
        assert (seen, sent) == (expected, expected)
        pages, before = list[list[str]](), ""
        while True:
            page = await webhooks.list_events(
                tx, merchant_id, "payout.paid", LogQuery(before=before)
            )
            pages.append([one.type for one in page.items])
            if not (before := page.before):
                break
        assert pages == [[], [], ["payout.paid"]]
        later = LogQuery(within=(harness.now() + 60_000, 2**62))
        assert (await webhooks.list_deliveries(tx, endpoint, "PENDING", later)).items == []


async def test_a_delivery_shows_its_newest_attempts_oldest_first(
    harness: WebhookHarness,
) -> None:
    """Resends add attempts without limit."""
    merchant_id = await harness.create_merchant()
    created = [
        await harness.create_endpoint(merchant_id, f"http://127.0.0.1:4000/{n}") for n in range(2)
    ]
    endpoint, other = (row for row, _ in created)
    await harness.emit(merchant_id, 3)
    many, few, none = [row["id"] for row in await harness.rows("select id from events order by id")]
    for target, event, count in ((endpoint, many, 300), (endpoint, few, 3), (other, many, 1)):
        await harness.rows(
            "insert into delivery_attempts select $1, $2, $3, n, 1, 1, 'refused', 500, '', '', ''"
            " from generate_series(1, $4) as n",
            merchant_id, target.id, event, count,
        )  # fmt: skip
    last = list(range(301 - KEPT_ATTEMPTS, 301))
    async with harness.db.connection() as tx:
        page = await webhooks.list_deliveries(tx, endpoint, None, LogQuery())
        shown = {sent.delivery.event_id: [a.number for a in sent.attempts] for sent in page.items}
        assert shown == {many: last, few: [1, 2, 3], none: []}
        _, sent_to = await webhooks.find_event(tx, merchant_id, many)
        numbers = {id_: [a.number for a in sent.attempts] for id_, sent in sent_to.items()}
        assert numbers == {endpoint.id: last, other.id: [1]}
        listed = await webhooks.list_latest_deliveries(tx, endpoint, None, 10)
        assert {d.event_id: [a.number for a in attempts] for d, attempts in listed} == shown
