"""Measure what the choice among many accounts and rules costs the start of a payment.

Payments of both kinds alternate one by one, and the fastest tenth of each is compared, so that
other work on the machine slows both alike and does not count while it takes the processor away. The
processor time of the process is a figure of its own: other work hardly changes it, and the choice
is made in memory.
"""

import statistics
import time

from benchmarks.run import BenchDatabase, Run
from opentill.core.ids import new_id
from opentill.core.money import EXPONENTS
from opentill.db.clock import now_ms
from opentill.gateways import Gateways, Method, PaymentOutcome, PaymentRequest
from opentill.gateways.account import GatewayAccount
from opentill.gateways.rules import RoutingRule, RuleSet
from opentill.gateways.sandbox import SandboxGateway
from opentill.orders import Payer, PaymentIntent
from opentill.orders.payments import service

ONE_ACCOUNT = "payments started, one account"
MANY_ACCOUNTS = "payments started, 50 accounts and 200 rules"
_PAIRS_PER_S = 250  # of payments, one of each kind


class _InstantGateway(SandboxGateway):
    """An adapter whose provider responds at once, without a page to which the customer could go."""

    async def pay(self, request: PaymentRequest) -> PaymentOutcome:
        """Accept the payment."""
        return PaymentOutcome(status="ACTION_REQUIRED", provider_ref=request.attempt_id)

    def methods(self, currency: str) -> tuple[Method, ...]:
        """Return the card."""
        return ("CREDIT_CARD",) if currency in EXPONENTS else ()


async def measure(run: Run) -> None:
    """Start payments, alternately with one account and with many accounts and rules."""
    pairs = 5 if run.options.quick else max(50, round(run.options.seconds * _PAIRS_PER_S))
    async with run.create_database("bench_routing", 1) as database:
        for _ in range(run.options.rounds):
            seconds: dict[str, list[tuple[float, float]]] = {ONE_ACCOUNT: [], MANY_ACCOUNTS: []}
            kinds = [
                (ONE_ACCOUNT, _create_gateways(1, 0)),
                (MANY_ACCOUNTS, _create_gateways(50, 200)),
            ]
            for _ in range(pairs):
                for figure, gateways in kinds:
                    seconds[figure].append(await _start_payment(database, gateways))
                kinds.reverse()  # neither kind always follows the other
            for figure, durations in seconds.items():
                elapsed, processor = zip(*durations, strict=True)
                run.record_figure(figure, 1 / statistics.quantiles(elapsed, n=10)[0])
                run.record_figure(
                    f"{figure}: ms of the processor", 1000 * statistics.median(processor)
                )


async def _start_payment(database: BenchDatabase, gateways: Gateways) -> tuple[float, float]:
    """Start a payment of one order; return the seconds, and those of the processor."""
    merchant = database.seed.merchants[0]
    intent = PaymentIntent(
        merchant_id=merchant.merchant_id,
        order_id=merchant.order_id,
        payer=Payer(email="ann@example.com", name="Ann", ip="203.0.113.7", locale="en"),
        method="CREDIT_CARD",
        merchant_name="Tea",
    )
    started, processor_started = time.perf_counter(), time.process_time()
    attempt = await service.submit(database.db, gateways, intent, "https://pay.example", now_ms())
    duration = time.perf_counter() - started, time.process_time() - processor_started
    assert attempt is not None
    assert attempt.status == "ACTION_REQUIRED", attempt.status
    return duration


def _create_gateways(account_count: int, rule_count: int) -> Gateways:
    """Create gateways with accounts that all fit, and rules of which the last one matches."""
    adapter = _InstantGateway("http://127.0.0.1:1", "s" * 32)
    gateways = Gateways({}, {}, {}, livemode=False)
    ids = [new_id("gat") for _ in range(account_count)]
    for account_id in ids:
        account = GatewayAccount(
            id=account_id,
            gateway="sandbox",
            label=account_id,
            merchant_id=None,
            livemode=False,
            status="ACTIVE",
            credential_hints="{}",
            previous_until=None,
            methods="",
            limit_currencies=["USD"],
            smallest_minor=[1],
            largest_minor=[10**9],
            day_minor=[None],
            day_number=[None],
            cost_currencies=[],
            cost_rate_bp=[],
            cost_fixed_minor=[],
            priority=100,
            weight=100,
            break_below_percent=None,
            break_slower_ms=None,
            break_texts=[],
            break_minutes=10,
            broken_at=None,
            broken_reason=None,
            retry_at=None,
            revision=1,
            created_at=1,
            updated_at=1,
        )
        gateways.put_account(account, adapter, None, None)
    gateways.rules = RuleSet(
        RoutingRule(
            id=new_id("rr"),
            position=number,
            methods=["CREDIT_CARD"],
            currencies=["USD"],
            smallest_minor=1,
            largest_minor=10**9,
            merchant_id=None if number == rule_count else new_id("mer"),
            device=None,
            ranking="SUCCESS_RATE" if number == rule_count else "ACCOUNTS",
            accounts=[] if number == rule_count else ids[:2],
            exploration_percent=2 if number == rule_count else None,
            is_only=False,
            created_at=1,
        )
        for number in range(1, rule_count + 1)
    )
    return gateways
