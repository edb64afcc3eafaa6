"""Sell tea and refund a part of the payment, with the Python client.

KEY=svc_live_… python examples/buy_and_refund.py http://127.0.0.1:8080
"""

import os
import sys
import time

from opentill.client import Client

with Client(sys.argv[1], os.environ["KEY"]) as client:
    tea = client.products.create(name="Tea, 100 g", price="9.99", currency="USD")
    session = client.checkouts.create(tea.id, metadata={"cart": "42"})
    print("pay at", session.url, flush=True)

    order_id = client.checkouts.get(session.id).order_id
    while (order := client.orders.get(order_id)).status in ("CREATING", "PENDING"):
        time.sleep(1)
    print(order.id, "is", order.status)

    # With the idempotency key, this line creates only one refund, however often it runs within 7
    # days. With `refund_no` instead, it would create only one at any time.
    refund = client.refunds.create(order.id, amount="2.00", idempotency_key=f"refund-{order.id}")
    print("refunding", refund.amount, refund.currency)
    for entry in client.balance_transactions.list(size=10):
        print(entry.type, entry.amount, entry.currency)
