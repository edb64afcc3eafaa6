"""Stripe's balance report agrees with the books after all that happens in Stripe's dashboard."""

import asyncio
import json
import time
from typing import Any, Final

from gateways.test_stripe_orders import Deployment, api_server, pay_order, wait_for
from support.stripe_server import StripeServer

__all__ = ["api_server"]
# "Balance change from activity", itemised.
HEADER: Final = (
    "balance_transaction_id,created_utc,available_on_utc,currency,gross,fee,net,"
    "reporting_category,source_id,description,customer_facing_amount,customer_facing_currency,"
    "payment_intent_id,charge_id,dispute_reason"
)
FULL: Final = 999  # the price in cents


HOURS_AGO: Final = 2  # when the movements happened at Stripe, which lists them an hour later


class BalanceReport:
    """The rows of a report as Stripe writes them, with a fee beside each payment.

    The bank's balance has the same movements, two hours ago.
    """

    def __init__(self, bank: StripeServer) -> None:
        """Begin without rows."""
        self.bank = bank
        self.rows: list[dict[str, Any]] = []

    def add(self, category: str, source_id: str, minor: int, intent: str = "") -> None:
        """Add a movement of so many cents."""
        amount = f"{minor / 100:.2f}"
        source = (
            {"id": source_id, "object": category.removesuffix("_reversal")} if source_id else None
        )
        if category == "charge":
            source = self.bank.charge(intent)
        elif category.startswith("refund"):
            source = self.bank.refunds[source_id]
        self.bank.balance.add(
            category, minor, "usd", source, created=int(time.time()) - HOURS_AGO * 3600
        )
        self.rows.append(
            {
                "balance_transaction_id": f"txn_{len(self.rows)}",
                "created_utc": time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime()),
                "currency": "usd",
                "gross": amount,
                "fee": "0.59" if category == "charge" else "0.00",
                "net": amount,
                "reporting_category": category,
                "source_id": source_id,
                "customer_facing_amount": amount if intent else "",
                "customer_facing_currency": "usd" if intent else "",
                "payment_intent_id": intent,
            }
        )

    def text(self, without: str = "") -> str:
        """Return the file, perhaps without the rows of a payment."""
        names = HEADER.split(",")
        lines = [
            ",".join(str(row.get(name, "")) for name in names)
            for row in self.rows
            if not without or row["payment_intent_id"] != without
        ]
        return "\n".join((HEADER, *lines, ""))


async def test_the_balance_report_has_all_that_happened_in_stripes_dashboard(
    api_server: Deployment,
) -> None:
    report = BalanceReport(api_server.bank)
    intent = await reverse_refund(api_server, report)
    await refund_in_dashboard(api_server, report)
    await dispute(api_server, report, "won")
    await dispute(api_server, report, "lost")
    report.add("fee", "", -150)
    report.add("payout", "po_1", -2000)

    # The report is complete for these days, so that a payment which it lacks is found.
    days = ("--from", day(-1), "--to", day(1))
    result = await compare(api_server, report.text(), *days)
    assert (result["differences"], result["rows"], result["matched"]) == ([], 10, 10)
    result = await compare(api_server, report.text(without=intent), *days)
    assert sorted((row["what"], row["kind"]) for row in result["differences"]) == [
        ("missing in report", "payment"),
        ("missing in report", "refund"),
        ("missing in report", "refund_failure"),
    ]
    # The next report has them.
    await compare(api_server, report.text(), *days)
    assert await api_server.command("reconcile", "inbox") == []

    # Fetched from Stripe, it has the same rows. Nothing is stored of one that fails in the middle.
    files = len(await api_server.command("reconcile", "files"))
    api_server.bank.inject_faults("balance", "", *["500"] * 4)
    fetching = ("reconcile", "stripe", "--from", day(-1))
    failed = await run(api_server, *fetching)
    assert failed.returncode not in (0, 1)
    assert "Stripe does not list its balance transactions (HTTP 500" in failed.stderr.decode()
    assert len(await api_server.command("reconcile", "files")) == files
    fetched = await api_server.command(*fetching)
    assert (fetched["differences"], fetched["rows"], fetched["matched"]) == ([], 10, 10)
    assert (await api_server.command("reconcile", "files"))[0]["name"].startswith(
        f"fetched, {day(-1)} to "
    )


async def compare(deployment: Deployment, text: str, *options: str) -> Any:
    """Compare a report with the books; return the result."""
    file = deployment.directory / "balance.csv"
    file.write_text(text)
    process = await run(deployment, "reconcile", "stripe", str(file), *options, "--json")
    assert process.returncode in (0, 1), process.stderr.decode()
    result = json.loads(process.stdout)
    assert process.returncode == (1 if result["differences"] else 0)
    return result


async def run(deployment: Deployment, *words: str) -> Any:
    """Run a command; return its process."""
    return await asyncio.to_thread(
        deployment._fork_server.run, list(words), deployment.environ, deployment.directory, b""
    )


def day(number: int) -> str:
    """Return the day that is so many days from today."""
    return time.strftime("%Y-%m-%d", time.gmtime(time.time() + number * 86_400))


async def pay(deployment: Deployment, report: BalanceReport) -> tuple[str, str]:
    """Pay an order; return the ids of the order and of the payment intent."""
    order_id, _, intent = await pay_order(deployment)
    report.add("charge", deployment.bank.charge(intent)["id"], FULL, intent)
    return order_id, intent


async def reverse_refund(deployment: Deployment, report: BalanceReport) -> str:
    """Refund an order in OpenTill; Stripe takes the refund back later."""
    bank, earlier_refunds = deployment.bank, set(deployment.bank.refunds)
    order_id, intent = await pay(deployment, report)
    await deployment.api("POST", f"/v1/orders/{order_id}/refunds", {})

    async def find_refunds() -> list[str]:
        return [name for name in bank.refunds if name not in earlier_refunds]

    (name,) = await wait_for(find_refunds)
    report.add("refund", name, -FULL, intent)
    await deployment.wait_for_status(order_id, "REFUNDED")
    await deployment.send_event_twice("refund.failed", bank.reverse_refund(name))
    report.add("refund_failure", name, FULL, intent)
    await deployment.wait_for_status(order_id, "PAID")
    return intent


async def refund_in_dashboard(deployment: Deployment, report: BalanceReport) -> None:
    """Refund a part of an order in Stripe's dashboard."""
    order_id, intent = await pay(deployment, report)
    refund = deployment.bank.refund_in_dashboard(intent, 300)
    report.add("refund", refund["id"], -300, intent)
    await deployment.send_event_twice("refund.created", refund)
    order = await deployment.api("GET", f"/v1/orders/{order_id}")
    assert order["refundedAmount"] == "3.00"


async def dispute(deployment: Deployment, report: BalanceReport, end: str) -> None:
    """Dispute an order; staff respond in Stripe's dashboard, or accept the dispute there."""
    order_id, intent = await pay(deployment, report)
    bank = deployment.bank
    opened = bank.dispute(intent, "needs_response", -FULL)
    report.add("dispute", opened["id"], -FULL, intent)
    await deployment.send_event_twice("charge.dispute.created", opened)
    await deployment.send_event_twice("charge.dispute.funds_withdrawn", opened)
    await deployment.wait_for_status(order_id, "DISPUTED")
    if end == "won":
        responded = bank.dispute(intent, "under_review", -FULL)
        await deployment.send_event_twice("charge.dispute.updated", responded)
        await deployment.wait_for_status(order_id, "DISPUTED")
        reinstated = bank.dispute(intent, "won", -FULL, FULL)
        report.add("dispute_reversal", opened["id"], FULL, intent)
        await deployment.send_event_twice("charge.dispute.closed", reinstated)
        await deployment.send_event_twice("charge.dispute.funds_reinstated", reinstated)
        await deployment.wait_for_status(order_id, "PAID")
    else:
        await deployment.send_event_twice(
            "charge.dispute.closed", bank.dispute(intent, "lost", -FULL)
        )
        await deployment.wait_for_status(order_id, "CHARGEBACK")
