"""Random histories of merchants, orders, refunds, disputes and payouts, driven by Hypothesis.

The histories run every event of the tables of contract.md#transitions through the services. After
each step the ledger must pass its checks, and all rows must equal ``exploration.reference_model``.
The product must refuse each step that the model refuses, and change nothing. At the end of a
history everything pending is completed, and the sums of every order's entries must equal those of
the model.
"""

from decimal import Decimal
from typing import Final

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from exploration import reference_model
from exploration.history_state import CHOICES, TrackedRow
from exploration.order_rules import OrderRules
from opentill import adjustments, disputes, payouts
from opentill.adjustments import AdjustmentRequest
from opentill.payouts import PayoutRequest
from support import world
from support.world import new_reference

PATHS: Final = {  # for each reported status, the statuses that the dispute passes through.
    "OPENED": ("OPEN",),
    "WON": ("OPEN", "WON"),
    "LOST": ("OPEN", "LOST"),
    "RECOVERED": ("OPEN", "LOST", "RECOVERED"),
}
SUMS_OF_ORDER: Final = """
    select {} from entries e
    left join refunds r on r.merchant_id = e.merchant_id and r.id = e.source_id
        and e.source_type = 'refund'
    left join disputes d on d.merchant_id = e.merchant_id and d.id = e.source_id
        and e.source_type = 'dispute'
    where e.source_type in ('order', 'refund', 'dispute')
        and coalesce(r.order_id, d.order_id, e.source_id) = $1
""".format(
    ", ".join(
        f"coalesce(sum((to_account = '{name}')::int * e.amount_minor"
        f" - (from_account = '{name}')::int * e.amount_minor), 0)::bigint as {name}"
        for name in reference_model.ACCOUNTS
    ),
)


class Histories(OrderRules):
    """Adds disputes, payouts and adjustments, and the end of a history."""

    # ── disputes ──

    @precondition(lambda self: any(tracked.model.paid for tracked in self.orders))
    @rule(
        choice=CHOICES,
        report=st.sampled_from(["OPENED", "OPENED", "OPENED", *PATHS]),
        percent=st.sampled_from([None, None, 100, 40, 1, 200]),
    )
    def report_new_dispute(self, choice: int, report: str, percent: int | None) -> None:
        """A gateway reports a new dispute, which may be partial, too large, or decided already."""
        tracked = self.pick([tracked for tracked in self.orders if tracked.model.paid], choice)
        order = tracked.model
        amount = order.price - order.accepted_refunds()
        if percent is not None:
            unit = reference_model.smallest_amount(order.currency)
            amount = max(unit, order.price * percent // 100 // unit * unit)
        ref = world.new_reference()  # this stays unique even if the dispute is ignored
        work = world.report_dispute(
            self.tx, self.find(tracked), report, self.now, ref=ref, minor=amount
        )
        model = order.open_dispute(amount)
        name = f"dispute: {report}{'' if model else ' ignored'}"
        dispute = self.run_step(name, work, is_allowed=True)
        assert (dispute is None) == (model is None)
        if dispute is None or model is None:
            return
        self.disputes.append(TrackedRow(dispute.id, tracked.shop_id, model, order=tracked, ref=ref))
        self._follow_dispute(self.disputes[-1], report)

    def _follow_dispute(self, tracked: TrackedRow, report: str) -> None:
        """Apply the transitions from the dispute's status to the reported one to the model."""
        path = PATHS[report]
        if tracked.model.status in path:
            for status in path[path.index(tracked.model.status) + 1 :]:
                assert tracked.order.model.decide(tracked.model, status.lower(), self.now)

    @precondition(lambda self: any(tracked.ref for tracked in self.disputes))
    @rule(choice=CHOICES, report=st.sampled_from(sorted(PATHS)))
    def report_known_dispute(self, choice: int, report: str) -> None:
        """A gateway reports a known dispute. Repeated and contradictory reports change nothing."""
        tracked = self.pick([tracked for tracked in self.disputes if tracked.ref], choice)
        work = world.report_dispute(
            self.tx,
            self.find(tracked.order),
            report,
            self.now,
            ref=tracked.ref,
            minor=tracked.model.amount,
        )
        self.run_step(f"dispute: {report} {tracked.model.status}", work, is_allowed=True)
        self._follow_dispute(tracked, report)

    @precondition(lambda self: self.orders)
    @rule(choice=CHOICES, percent=st.sampled_from([None, 100, 40, 0, 101]))
    def open_dispute_manually(self, choice: int, percent: int | None) -> None:
        tracked = self.pick_order(choice)
        order = tracked.model
        remaining = order.price - order.accepted_refunds()
        amount = None
        if percent is not None:
            unit = reference_model.smallest_amount(order.currency)
            amount = remaining * percent // 100 // unit * unit + (unit if percent > 100 else 0)
        model = order.open_dispute(amount) if amount is None or 0 < amount <= remaining else None
        work = disputes.open_manually(
            self.tx, tracked.shop_id, tracked.key,
            who="ann", reason="why", now=self.now, amount_minor=amount,
        )  # fmt: skip
        dispute = self.run_step("dispute opened manually", work, is_allowed=model is not None)
        if dispute is not None:
            self.disputes.append(
                TrackedRow(dispute.id, tracked.shop_id, model, order=tracked, ref=None)
            )

    @precondition(lambda self: self.disputes)
    @rule(choice=CHOICES, event=st.sampled_from(["won", "lost", "lost", "recovered", "recovered"]))
    def decide_dispute_manually(self, choice: int, event: str) -> None:
        self._decide_dispute(self.pick(self.disputes, choice), event)

    def _decide_dispute(self, tracked: TrackedRow, event: str) -> None:
        is_allowed = tracked.order.model.decide(tracked.model, event, self.now)
        work = disputes.decide(
            self.tx, tracked.shop_id, tracked.key, event, who="ann", reason="why", now=self.now
        )
        self.run_step(f"dispute {event} manually", work, is_allowed=is_allowed)

    # ── payouts and adjustments ──

    def _amount(self, shop: reference_model.Shop, account: str, percent: int) -> int:
        """Return a percentage of an account, at least one unit."""
        unit = reference_model.smallest_amount(shop.currency)
        balance = shop.sum_frozen_manually if account == "frozen" else abs(shop.accounts[account])
        return max(unit, balance * percent // 100 // unit * unit)

    @rule(
        choice=CHOICES,
        percent=st.sampled_from([None, 10, 60, 100, 120]),
        fee=st.sampled_from([0, 0, 100]),
    )
    def create_payout(self, choice: int, percent: int | None, fee: int) -> None:
        shop_id = list(self.shops)[choice % len(self.shops)]
        shop = self.shops[shop_id]
        amount = None if percent is None else self._amount(shop, "available", percent)
        model = shop.pay_out(amount, fee)
        payout_request = PayoutRequest(
            amount_minor=amount, fee_minor=fee, reference=new_reference(), reason="why", by="ann"
        )
        work = payouts.create(self.tx, shop_id, payout_request, None, self.now)
        payout = self.run_step("payout", work, is_allowed=model is not None)
        if payout is not None and model is not None:
            assert payout.amount_minor == model.amount
            self.payouts.append(TrackedRow(payout.id, shop_id, model))

    @precondition(lambda self: self.payouts)
    @rule(choice=CHOICES, event=st.sampled_from(["paid", "failed", "returned"]))
    def end_payout(self, choice: int, event: str) -> None:
        self._end_payout(self.pick(self.payouts, choice), event)

    def _end_payout(self, tracked: TrackedRow, event: str) -> None:
        is_allowed = self.shops[tracked.shop_id].end_payout(tracked.model, event)
        if event == "paid":
            work = payouts.pay(self.tx, tracked.key, "TRN", "why", "ann", self.now)
        elif event == "returned":
            work = payouts.record_return(self.tx, tracked.key, "why", "ann", self.now)
        else:
            work = payouts.fail(self.tx, tracked.key, "why", "ann", self.now)
        self.run_step(f"payout {event}", work, is_allowed=is_allowed)

    @rule(
        choice=CHOICES,
        kind=st.sampled_from([*adjustments.KINDS, "unfreeze", "correct"]),
        percent=st.sampled_from([-120, -100, -30, 10, 50, 100, 101]),
        account=st.sampled_from(["available", "pending"]),
        needs_approval=st.sampled_from([False, False, True]),
    )  # fmt: skip
    def adjust_balance(
        self, choice: int, kind: str, percent: int, account: str, needs_approval: bool
    ) -> None:
        frozen_ids = [key for key, shop in self.shops.items() if shop.sum_frozen_manually]
        shop_ids = frozen_ids if kind == "unfreeze" and frozen_ids else list(self.shops)
        shop_id = shop_ids[choice % len(shop_ids)]
        shop = self.shops[shop_id]
        order_ids = [tracked.key for tracked in self.orders if tracked.shop_id == shop_id]
        account = account if kind == "correct" else "available"
        source = {"unfreeze": "frozen", "unprepay": "prepaid"}.get(kind, account)
        amount = self._amount(shop, source, abs(percent))
        if kind in {"recharge", "topup"}:
            amount = reference_model.minor(str(abs(percent)), shop.currency)
        amount = -amount if kind == "correct" and percent < 0 else amount
        order_id = self.pick(order_ids, choice) if kind == "correct" and order_ids else None
        adjustment_request = AdjustmentRequest(
            kind=kind, amount_minor=amount, reference=new_reference(), reason="why", by="ann",
            account=account, order_id=order_id,
        )  # fmt: skip
        approval_limit = Decimal(0) if needs_approval else None
        work = adjustments.request(self.tx, shop_id, adjustment_request, approval_limit, self.now)
        is_complete = kind != "correct" or order_id is not None
        is_allowed = is_complete and (needs_approval or shop.adjust(kind, amount, account))
        name = f"{kind}{' waits' if needs_approval else ''}"
        adjustment = self.run_step(name, work, is_allowed=is_allowed)
        if adjustment is not None and needs_approval:
            self.requested_adjustments.append(
                TrackedRow(adjustment.id, shop_id, [kind, amount, account], status="WAITING")
            )

    @precondition(lambda self: self.requested_adjustments)
    @rule(choice=CHOICES, approved=st.booleans(), by=st.sampled_from(["bob", "bob", "ann"]))
    def decide_adjustment(self, choice: int, approved: bool, by: str) -> None:
        tracked = self.pick(self.requested_adjustments, choice)
        is_allowed = tracked.status == "WAITING" and not (approved and by == "ann")
        if approved:
            is_allowed = is_allowed and self.shops[tracked.shop_id].adjust(*tracked.model)
            work = adjustments.approve(self.tx, tracked.key, by, self.now)
        else:
            work = adjustments.reject(self.tx, tracked.key, by, "why", self.now)
        self.run_step("approve" if approved else "reject", work, is_allowed=is_allowed)
        if is_allowed:
            tracked.status = "DONE" if approved else "REJECTED"

    # ── checks at the end ──

    def teardown(self) -> None:
        try:
            if self.is_consistent:
                self.finish()
        finally:
            self.loop.run_until_complete(self.transaction.rollback())

    def finish(self) -> None:
        """Complete everything that is pending, let years pass, and compare the sums."""
        for number, refund in enumerate(self.refunds):
            self._report_refund(refund, "REFUSED" if number % 3 == 2 else "SUCCEEDED")
        for number, dispute in enumerate(self.disputes):
            if dispute.model.status == "OPEN":
                self._decide_dispute(dispute, "lost" if number % 2 else "won")
        for payout in self.payouts:
            self._end_payout(payout, "paid")
        for index, attempt in enumerate(self.attempts):
            if attempt.status in reference_model.UNDECIDED:
                self._report_payment(index, "VOIDED", None)
        self.now += 20 * 366 * world.DAY
        self.expire_due_sessions()
        self.settle_due_orders()
        self.now += 366 * world.DAY
        self.release_reserves()
        self.check_rows()
        for tracked in self.orders:
            assert tracked.model.is_closed(), tracked.model.status
            (row,) = self._fetch_rows(SUMS_OF_ORDER, tracked.key)
            sums = dict(zip(reference_model.ACCOUNTS, row, strict=True))
            assert sums == tracked.model.expected_sums(), tracked.model.status
            ending = f"closed {tracked.model.status} {tracked.model.terms['refund_fee_policy']}"
            self.tally[ending] = self.tally.get(ending, 0) + 1
        for shop in self.shops.values():
            assert (shop.accounts["reserve"], shop.accounts["frozen"]) == (
                0,
                shop.sum_frozen_manually,
            )
        names = " + ".join(f"sum({name})" for name in reference_model.ACCOUNTS)
        for _, total in self._fetch_rows(f"select currency, {names} from balances group by 1"):
            assert total == 0
