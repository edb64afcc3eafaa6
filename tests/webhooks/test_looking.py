"""What people look at: page by page from the newest, each page at the same cost."""

import pytest

from opentill import webhooks
from opentill.webhooks import Which, looking
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
