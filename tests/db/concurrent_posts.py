"""Concurrent requests that must succeed a fixed number of times."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

from support.api_server import TEA, Shop


def assert_concurrent_posts(shop: Shop, threads: ThreadPoolExecutor, order_id: str) -> None:
    """Refund an order of 5.00 in parts, and create a product under one idempotency key."""
    path = f"/v1/orders/{order_id}/refunds"
    refunds = threads.map(lambda _: shop.post_until_decided(path, {"amount": "0.10"}), range(60))
    assert Counter(response.status_code for response in refunds) == {201: 50, 400: 10}
    products = list(
        threads.map(lambda _: shop.post_until_decided("/v1/products", TEA, "k"), range(30))
    )
    assert {response.status_code for response in products} <= {201, 409}
    assert len({response.content for response in products if response.status_code == 201}) == 1
