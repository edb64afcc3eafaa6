"""The figures of deliveries by day: what counts as failed, and what is not counted."""

from opentill import webhooks
from opentill.webhooks import figures
from support.api_server import Shop

DAY = 86_400_000


def test_deliveries_are_counted_by_day_and_tests_are_not(shop: Shop) -> None:
    server, now = shop.api_server, shop.api_server.app.clock()
    endpoint_id = shop.create_endpoint(events=["order.paid"])["id"]
    quiet_id = shop.create_endpoint(events=["payout.paid"])["id"]
    for _ in range(5):
        shop.create_paid_order()
    shop.data("POST", f"/v1/webhook-endpoints/{endpoint_id}/test")
    ids = [
        row["event_id"]
        for row in server.sql(
            "select event_id from webhook_deliveries where merchant_id = $1"
            " and type <> 'webhook.test' order by event_id",
            shop.id,
        )
    ]
    rows = (
        ("SUCCEEDED", 1, None, now),
        ("FAILED", 10, None, now - DAY),
        ("PENDING", 1, now, now - DAY),  # failed once, so it counts as failed
        ("PENDING", 0, now, now),
        ("SUCCEEDED", 1, None, now - 9 * DAY),  # before the first day
    )
    for event_id, (status, attempts, try_at, created_at) in zip(ids, rows, strict=True):
        server.sql(
            "update webhook_deliveries set status = $3, attempts = $4, try_at = $5,"
            " created_at = $6 where merchant_id = $1 and event_id = $2",
            shop.id, event_id, status, attempts, try_at, created_at,
        )  # fmt: skip
    for number, (duration, status) in enumerate(((10, 200), (90, 500), (40, 200), (9000, None)), 1):
        server.sql(
            "insert into delivery_attempts (merchant_id, endpoint_id, event_id, number, at,"
            " duration_ms, outcome, http_status, request, answer, error)"
            " values ($1, $2, $3, $4, $5, $6, 'no_answer', $7, '', '', '')",
            shop.id, endpoint_id, ids[1], number, now, duration, status,
        )  # fmt: skip
    days = [now - 2 * DAY + 1, now - DAY + 1 - DAY // 2, now - DAY // 2]
    total, each = server.tx(lambda tx: webhooks.summarize_deliveries(tx, shop.id, days))
    assert total == each[endpoint_id]
    assert (total.delivered, total.failed, total.pending) == ((0, 0, 1), (0, 2, 0), 1)
    assert (total.retrying, total.tests) == (1, 1)
    assert (total.total, total.median_ms, total.is_partial) == (4, 40, False)
    assert quiet_id not in each
    only, _ = server.tx(lambda tx: webhooks.summarize_deliveries(tx, shop.id, days, quiet_id))
    assert (only.total, only.delivered, only.median_ms) == (0, (0, 0, 0), None)


def test_figures_say_when_more_deliveries_exist_than_are_counted(shop: Shop) -> None:
    shop.create_endpoint(events=["order.paid"])
    for _ in range(3):
        shop.create_paid_order()
    server, now = shop.api_server, shop.api_server.app.clock()

    def is_partial(limit: int, since: int) -> bool:
        most, figures.MAX_COUNTED = figures.MAX_COUNTED, limit  # type: ignore[misc]
        try:
            total, _ = server.tx(lambda tx: webhooks.summarize_deliveries(tx, shop.id, [since]))
        finally:
            figures.MAX_COUNTED = most  # type: ignore[misc]
        return total.is_partial

    assert [is_partial(limit, now - DAY) for limit in (2, 3, 4)] == [True, True, False]
    assert not is_partial(2, now + DAY)  # all the days' deliveries were read
