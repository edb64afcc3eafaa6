"""Rules of random histories: orders and their payments, refunds, settlement."""

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from exploration import reference_model
from exploration.history_state import CHOICES, CURRENCIES, HistoryState, TrackedRow
from opentill import checkouts, orders
from opentill.checkouts.jobs import expire_due
from opentill.core.money import Money
from opentill.gateways.model import RefundOutcome
from opentill.orders.settlement import service as settlement
from support import world


class OrderRules(HistoryState):
    """All events of an order except disputes."""

    # ── orders ──

    def _open_session(self, choice: int, price: int, currency: str) -> TrackedRow | None:
        shop_id = list(self.shops)[choice % len(self.shops)]
        shop = self.shops[shop_id]
        exponent = reference_model.EXPONENTS[currency]
        text = f"{price}.00" if exponent == 0 else f"{price // 100}.{price % 100:02}"
        rate, usd = self._find_rate(currency, shop.currency), self._find_rate(currency, "USD")
        model = None
        if rate is not None and usd is not None:
            model = reference_model.Order(
                shop, reference_model.minor(text, currency), currency, rate
            )
        key = (shop_id, text, currency)
        if key not in self.product_ids:
            self.product_ids[key] = self.run(world.create_product(self.tx, *key)).id
        work = world.create_session(self.tx, shop_id, self.product_ids[key], self.now)
        session = self.run_step("open", work, is_allowed=model is not None and model.gross > 0)
        if session is None:
            return None
        tracked = TrackedRow(
            session.order_id, shop_id, model, session_id=session.id, expires_at=session.expires_at
        )
        self.orders.append(tracked)
        return tracked

    @rule(choice=CHOICES, price=st.integers(1, 30_000), currency=st.sampled_from(CURRENCIES))
    def open_session(self, choice: int, price: int, currency: str) -> None:
        self._open_session(choice, price, currency)

    @rule(choice=CHOICES, price=st.integers(1, 30_000), currency=st.sampled_from(CURRENCIES))
    def buy(self, choice: int, price: int, currency: str) -> None:
        self._buy(choice, price, currency)

    @rule(
        choice=CHOICES,
        price=st.integers(1, 30_000),
        report=st.sampled_from(["ACTION_REQUIRED", "DECLINED", "REFUSED", "VOIDED"]),
    )
    def try_to_buy(self, choice: int, price: int, report: str) -> None:
        self._buy(choice, price, "USD", report)

    def _buy(self, choice: int, price: int, currency: str, report: str = "SUCCEEDED") -> None:
        tracked = self._open_session(choice, price, currency)
        if tracked is not None:
            self._submit(tracked)
            self._report_payment(len(self.attempts) - 1, report, None)

    def find(self, tracked: TrackedRow) -> orders.Order:
        return self.run(orders.find(self.tx, tracked.shop_id, tracked.key))

    def _submit(self, tracked: TrackedRow) -> None:
        work = world.submit_attempt(self.tx, self.find(tracked), self.now)
        attempt = self.run_step("submit", work, is_allowed=tracked.model.submit())
        if attempt is not None:
            self.attempts.append(attempt)

    @precondition(lambda self: self.orders)
    @rule(choice=CHOICES)
    def submit(self, choice: int) -> None:
        self._submit(self.pick_order(choice))

    @precondition(lambda self: self.attempts)
    @rule(
        choice=CHOICES,
        report=st.sampled_from([
            "SUCCEEDED", "SUCCEEDED", "ACTION_REQUIRED", "PENDING", "DECLINED", "REFUSED",
            "VOIDED", "UNKNOWN", "NOT_FOUND", "UNREACHABLE",
        ]),
        method=st.sampled_from([None, "ALIPAY", "WECHAT_PAY"]),
        is_wrong_amount=st.sampled_from([False, False, False, True]),
    )  # fmt: skip
    def report_payment(
        self, choice: int, report: str, method: str | None, is_wrong_amount: bool
    ) -> None:
        """A gateway reports an outcome of any attempt, even of an old one.

        ``is_wrong_amount``: the reported amount is one minor unit too high.
        """
        index = self.attempts.index(self.pick(self.attempts, choice))
        self._report_payment(index, report, method, is_wrong_amount)

    def _report_payment(
        self, index: int, report: str, method: str | None, is_wrong_amount: bool = False
    ) -> None:
        before = self.attempts[index]
        order = next(tracked.model for tracked in self.orders if tracked.key == before.order_id)
        fields: dict[str, Any] = {}
        if report == "SUCCEEDED":
            fields["amount"] = Money(before.amount_minor + is_wrong_amount, before.currency)
            fields["method"] = method
        after = self.run_step(
            f"gateway: {report}",
            world.report_payment(self.tx, before, report, self.now, **fields),
            is_allowed=True,
        )
        assert after is not None
        self.attempts[index] = after
        if report == "SUCCEEDED":
            if before.status in {"SUCCEEDED", "DUPLICATE", "GIVEN_BACK"} or is_wrong_amount:
                assert after.status == before.status
                return
            is_confirmed = order.confirm(method or before.method, self.now)
            assert after.status == ("SUCCEEDED" if is_confirmed else "DUPLICATE")
        elif before.status in reference_model.UNDECIDED and order.status in {"CREATING", "PENDING"}:
            is_late = self.now - before.created_at >= world.LATE
            self._apply_failure(order, before.status, report, is_late)

    @staticmethod
    def _apply_failure(
        order: reference_model.Order, attempt_status: str, report: str, is_late: bool
    ) -> None:
        is_first_report = attempt_status == "SUBMITTED"
        has_failed = report in {"DECLINED", "UNREACHABLE"} or (report == "NOT_FOUND" and is_late)
        if report in {"REFUSED", "VOIDED"}:
            order.end({"REFUSED": "FAILED", "VOIDED": "REVOKED"}[report])
        elif is_first_report and (has_failed or report in {"ACTION_REQUIRED", "PENDING"}):
            order.status = "PENDING"

    @precondition(lambda self: any(a.status == "DUPLICATE" for a in self.attempts))
    @rule(choice=CHOICES, report=st.sampled_from(["SUCCEEDED", "REFUSED", "UNKNOWN", "PENDING"]))
    def return_duplicate(self, choice: int, report: str) -> None:
        """A gateway reports that it sent a duplicate payment back, which posts nothing."""
        duplicates = [n for n, a in enumerate(self.attempts) if a.status == "DUPLICATE"]
        index = self.pick(duplicates, choice)
        before = self.attempts[index]
        outcome = RefundOutcome(status=report)
        self.run(orders.apply_duplicate_return(self.tx, before, outcome, self.now))
        after = self.run(orders.find_attempt(self.tx, before.merchant_id, before.id))
        assert after.status == ("GIVEN_BACK" if report == "SUCCEEDED" else "DUPLICATE")
        self.attempts[index] = after

    @precondition(lambda self: self.orders)
    @rule(choice=CHOICES, action=st.sampled_from(["confirm", "confirm", "revoke"]))
    def confirm_or_revoke_manually(self, choice: int, action: str) -> None:
        tracked = self.pick_order(choice)
        if action == "confirm":
            work = orders.confirm_manually(
                self.tx, tracked.shop_id, tracked.key, "ann", "why", self.now
            )
            self.run_step(
                "confirm", work, is_allowed=tracked.model.confirm("BANK_TRANSFER", self.now)
            )
        else:
            work = orders.revoke_manually(
                self.tx, tracked.shop_id, tracked.key, "ann", "why", self.now
            )
            self.run_step("revoke", work, is_allowed=tracked.model.end("REVOKED"))

    @precondition(lambda self: self.orders)
    @rule(choice=CHOICES)
    def expire_session(self, choice: int) -> None:
        """Expire a session. If it has expired already, this changes nothing."""
        tracked = self.pick_order(choice)
        is_allowed = tracked.model.end("CLOSED") or tracked.model.session == "EXPIRED"
        work = checkouts.expire(self.tx, tracked.shop_id, tracked.session_id, "over", self.now)
        self.run_step("expire", work, is_allowed=is_allowed)

    @rule()
    def expire_due_sessions(self) -> None:
        self.run(expire_due(self.db, self.now))
        for tracked in self.orders:
            if tracked.expires_at <= self.now:
                tracked.model.end("CLOSED")

    # ── refunds ──

    @precondition(lambda self: self.orders)
    @rule(
        choice=CHOICES,
        part=st.one_of(st.none(), st.integers(1, 100), st.integers(1, 99), st.just(0)),
        cents=st.booleans(),
    )
    def create_refund(self, choice: int, part: int | None, cents: bool) -> None:
        """Refund ``part`` percent (None: the rest), or if ``cents`` ``part`` smallest amounts."""
        tracked = self.pick_order(choice)
        order = tracked.model
        text = None
        if part is not None:
            unit = reference_model.smallest_amount(order.currency)
            amount = part * unit if cents else order.price * part // 100 // unit * unit
            exponent = reference_model.EXPONENTS[order.currency]
            hundredths = amount * 100 // 10**exponent
            text = f"{hundredths // 100}.{hundredths % 100:02}"
        model = order.refund(None if text is None else reference_model.minor(text, order.currency))
        work = world.create_refund(self.tx, self.find(tracked), text, self.now)
        refund = self.run_step("refund", work, is_allowed=model is not None)
        self._track_refund(tracked, refund, model)

    def _track_refund(self, tracked: TrackedRow, refund: Any, model: Any) -> None:
        """Compare an accepted refund with its model, and add both to the history."""
        if refund is not None and model is not None:
            assert (refund.amount_minor, refund.debit_minor) == (model.amount, model.debit)
            self.refunds.append(
                TrackedRow(refund.id, tracked.shop_id, model, order=tracked.model, row=refund)
            )

    @precondition(lambda self: self.refunds)
    @rule(choice=CHOICES, report=st.sampled_from(["SUCCEEDED", "SUCCEEDED", "REFUSED", "PENDING"]))
    def report_refund(self, choice: int, report: str) -> None:
        """A gateway reports an outcome of a refund, even of a completed one."""
        self._report_refund(self.pick(self.refunds, choice), report)

    def _report_refund(self, tracked: TrackedRow, report: str) -> None:
        work = world.report_refund(self.tx, tracked.row, report, self.now)
        self.run_step(f"refund: {report}", work, is_allowed=True)
        tracked.order.end_refund(tracked.model, report)

    @precondition(lambda self: self.refunds)
    @rule(choice=CHOICES)
    def reverse_refund(self, choice: int) -> None:
        """A gateway reports that a refund failed, even if it had succeeded before."""
        tracked = self.pick(self.refunds, choice)
        order = self.run(orders.find(self.tx, tracked.shop_id, tracked.row.order_id))
        work = world.report_refund_event(
            self.tx,
            order,
            "REFUSED",
            self.now,
            refund=tracked.row,
            minor=tracked.model.amount,
            ref=tracked.row.provider_ref or "rf_1",
        )
        self.run_step(f"refund: reversed {tracked.model.status}", work, is_allowed=True)
        tracked.order.reverse_refund(tracked.model)

    @precondition(lambda self: any(tracked.model.paid for tracked in self.orders))
    @rule(choice=CHOICES, percent=st.sampled_from([1, 30, 50, 100, 120]))
    def refund_at_provider(self, choice: int, percent: int) -> None:
        """Somebody refunds a part, all, or more than all of the order at the provider."""
        tracked = self.pick([tracked for tracked in self.orders if tracked.model.paid], choice)
        order = tracked.model
        unit = reference_model.smallest_amount(order.currency)
        amount = max(unit, order.price * percent // 100 // unit * unit)
        model = order.refund_at_provider(amount)
        work = world.report_refund_event(
            self.tx,
            self.find(tracked),
            "SUCCEEDED",
            self.now,
            minor=amount,
            ref=world.new_reference(),
        )
        name = "refund at the gateway" if model else "refund at the gateway fits no order"
        refund = self.run_step(name, work, is_allowed=True)
        assert (refund is None) == (model is None)
        self._track_refund(tracked, refund, model)

    # ── settlement ──

    @precondition(lambda self: self.orders)
    @rule(choice=CHOICES)
    def settle_order(self, choice: int) -> None:
        """Settle an order, even before it is due."""
        tracked = self.pick_order(choice)
        is_allowed = tracked.model.settle(self.now)
        work = orders.settle_one(self.tx, tracked.shop_id, tracked.key, self.now, "why")
        self.run_step("settle", work, is_allowed=is_allowed)

    @rule(choice=CHOICES)
    def settle_shop_early(self, choice: int) -> None:
        shop_id = list(self.shops)[choice % len(self.shops)]
        work = settlement.settle_batch(self.tx, shop_id, self.now, "why", early=True)
        self.run_step("settle early", work, is_allowed=True)
        for tracked in self.orders:
            if tracked.shop_id == shop_id:
                tracked.model.settle(self.now)

    @rule()
    def settle_due_orders(self) -> None:
        self.run_step("settle due", settlement.settle_due(self.db, self.now), is_allowed=True)
        for tracked in self.orders:
            if tracked.model.paid and tracked.model.due_at <= self.now:
                tracked.model.settle(self.now)

    @rule()
    def release_reserves(self) -> None:
        are_released = [tracked.model.release(self.now) for tracked in self.orders]
        name = "release" if any(are_released) else "release nothing"
        self.run_step(name, settlement.release_reserves(self.db, self.now), is_allowed=True)
