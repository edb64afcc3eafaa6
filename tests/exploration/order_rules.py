"""Rules of random histories: orders and their payments, refunds, settlement."""

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from exploration import reference_model
from exploration.history_state import ANY, CURRENCIES, HistoryState, Tracked
from opentill import checkouts, orders
from opentill.checkouts.jobs import expire_due
from opentill.core.money import Money
from opentill.gateways.model import RefundOutcome
from opentill.orders.settlement import service as settlement
from support import world


class OrderRules(HistoryState):
    """All events of an order except disputes."""

    # ── orders ──

    def _opens(self, which: int, price: int, currency: str) -> Tracked | None:
        shop_id = list(self.shops)[which % len(self.shops)]
        shop = self.shops[shop_id]
        exponent = reference_model.EXPONENTS[currency]
        text = f"{price}.00" if exponent == 0 else f"{price // 100}.{price % 100:02}"
        rate, usd = self._worth(currency, shop.currency), self._worth(currency, "USD")
        model = None
        if rate is not None and usd is not None:
            model = reference_model.Order(
                shop, reference_model.minor(text, currency), currency, rate
            )
        key = (shop_id, text, currency)
        if key not in self.products:
            self.products[key] = self.run(world.create_product(self.tx, *key)).id
        work = world.create_session(self.tx, shop_id, self.products[key], self.now)
        opened = self.take("open", work, fine=model is not None and model.gross > 0)
        if opened is None:
            return None
        tracked = Tracked(
            opened.order_id, shop_id, model, session=opened.id, until=opened.expires_at
        )
        self.orders.append(tracked)
        return tracked

    @rule(which=ANY, price=st.integers(1, 30_000), currency=st.sampled_from(CURRENCIES))
    def opens(self, which: int, price: int, currency: str) -> None:
        self._opens(which, price, currency)

    @rule(which=ANY, price=st.integers(1, 30_000), currency=st.sampled_from(CURRENCIES))
    def buys(self, which: int, price: int, currency: str) -> None:
        self._buys(which, price, currency)

    @rule(
        which=ANY,
        price=st.integers(1, 30_000),
        word=st.sampled_from(["ACTION_REQUIRED", "DECLINED", "REFUSED", "VOIDED"]),
    )
    def tries_to_buy(self, which: int, price: int, word: str) -> None:
        self._buys(which, price, "USD", word)

    def _buys(self, which: int, price: int, currency: str, word: str = "SUCCEEDED") -> None:
        tracked = self._opens(which, price, currency)
        if tracked is not None:
            self._submits(tracked)
            self._says(len(self.attempts) - 1, word, None)

    def find(self, tracked: Tracked) -> orders.Order:
        return self.run(orders.find(self.tx, tracked.shop_id, tracked.key))

    def _submits(self, tracked: Tracked) -> None:
        work = world.submit_attempt(self.tx, self.find(tracked), self.now)
        done = self.take("submit", work, fine=tracked.model.submit())
        if done is not None:
            self.attempts.append(done)

    @precondition(lambda self: self.orders)
    @rule(which=ANY)
    def submits(self, which: int) -> None:
        self._submits(self.order_of(which))

    @precondition(lambda self: self.attempts)
    @rule(
        which=ANY,
        word=st.sampled_from([
            "SUCCEEDED", "SUCCEEDED", "ACTION_REQUIRED", "PENDING", "DECLINED", "REFUSED",
            "VOIDED", "UNKNOWN", "NOT_FOUND", "UNREACHABLE",
        ]),
        method=st.sampled_from([None, "ALIPAY", "WECHAT_PAY"]),
        wrong=st.sampled_from([False, False, False, True]),
    )  # fmt: skip
    def says(self, which: int, word: str, method: str | None, wrong: bool) -> None:
        """A gateway reports an outcome of any attempt, even of an old one."""
        place = self.attempts.index(self.pick(self.attempts, which))
        self._says(place, word, method, wrong)

    def _says(self, place: int, word: str, method: str | None, wrong: bool = False) -> None:
        seen = self.attempts[place]
        tracked = next(tracked for tracked in self.orders if tracked.key == seen.order_id)
        order, before = tracked.model, seen.status
        what: dict[str, Any] = {}
        if word == "SUCCEEDED":
            what["amount"] = Money(seen.amount_minor + wrong, seen.currency)
            what["method"] = method
        after = self.take(
            f"gateway: {word}",
            world.report_payment(self.tx, seen, word, self.now, **what),
            fine=True,
        )
        assert after is not None
        self.attempts[place] = after
        if word == "SUCCEEDED":
            if before in {"SUCCEEDED", "DUPLICATE", "GIVEN_BACK"} or wrong:
                assert after.status == before
                return
            paid = order.confirm(method or seen.method, self.now)
            assert after.status == ("SUCCEEDED" if paid else "DUPLICATE")
        elif before in reference_model.UNDECIDED and order.status in {"CREATING", "PENDING"}:
            self._not_paid(order, before, word, self.now - seen.created_at >= world.LATE)

    @staticmethod
    def _not_paid(order: reference_model.Order, before: str, word: str, late: bool) -> None:
        fresh = before == "SUBMITTED"
        ended = word in {"DECLINED", "UNREACHABLE"} or (word == "NOT_FOUND" and fresh and late)
        if word in {"REFUSED", "VOIDED"}:
            order.end({"REFUSED": "FAILED", "VOIDED": "REVOKED"}[word])
        elif fresh and (ended or word in {"ACTION_REQUIRED", "PENDING"}):
            order.status = "PENDING"

    @precondition(lambda self: any(a.status == "DUPLICATE" for a in self.attempts))
    @rule(which=ANY, word=st.sampled_from(["SUCCEEDED", "REFUSED", "UNKNOWN", "PENDING"]))
    def a_duplicate_is_given_back(self, which: int, word: str) -> None:
        """Returning a duplicate posts nothing."""
        duplicates = [n for n, a in enumerate(self.attempts) if a.status == "DUPLICATE"]
        seen = self.attempts[self.pick(duplicates, which)]
        outcome = RefundOutcome(status=word)
        self.run(orders.apply_duplicate_return(self.tx, seen, outcome, self.now))
        after = self.run(orders.find_attempt(self.tx, seen.merchant_id, seen.id))
        assert after.status == ("GIVEN_BACK" if word == "SUCCEEDED" else "DUPLICATE")
        self.attempts[self.attempts.index(seen)] = after

    @precondition(lambda self: self.orders)
    @rule(which=ANY, how=st.sampled_from(["confirm", "confirm", "revoke"]))
    def the_operator_says(self, which: int, how: str) -> None:
        tracked = self.order_of(which)
        if how == "confirm":
            work = orders.confirm_manually(
                self.tx, tracked.shop_id, tracked.key, "ann", "why", self.now
            )
            self.take("confirm", work, fine=tracked.model.confirm("BANK_TRANSFER", self.now))
        else:
            work = orders.revoke_manually(
                self.tx, tracked.shop_id, tracked.key, "ann", "why", self.now
            )
            self.take("revoke", work, fine=tracked.model.end("REVOKED"))

    @precondition(lambda self: self.orders)
    @rule(which=ANY)
    def expires(self, which: int) -> None:
        """Expiring a session that has expired already changes nothing."""
        tracked = self.order_of(which)
        fine = tracked.model.end("CLOSED") or tracked.model.session == "EXPIRED"
        work = checkouts.expire(self.tx, tracked.shop_id, tracked.session, "over", self.now)
        self.take("expire", work, fine=fine)

    @rule()
    def sessions_grow_old(self) -> None:
        self.run(expire_due(self.db, self.now))
        for tracked in self.orders:
            if tracked.until <= self.now:
                tracked.model.end("CLOSED")

    # ── refunds ──

    @precondition(lambda self: self.orders)
    @rule(
        which=ANY,
        part=st.one_of(st.none(), st.integers(1, 100), st.integers(1, 99), st.just(0)),
        cents=st.booleans(),
    )
    def refunds_(self, which: int, part: int | None, cents: bool) -> None:
        """Refund ``part`` hundredths of the order, or, with ``cents``, ``part`` cents or units."""
        tracked = self.order_of(which)
        order = tracked.model
        text = None
        if part is not None:
            unit = reference_model.grain(order.currency)
            amount = part * unit if cents else order.price * part // 100 // unit * unit
            exponent = reference_model.EXPONENTS[order.currency]
            cents_in_all = amount * 100 // 10**exponent
            text = f"{cents_in_all // 100}.{cents_in_all % 100:02}"
        model = order.refund(None if text is None else reference_model.minor(text, order.currency))
        work = world.create_refund(self.tx, self.find(tracked), text, self.now)
        done = self.take("refund", work, fine=model is not None)
        if done is None or model is None:
            return
        assert (done.amount_minor, done.debit_minor) == (model.amount, model.debit)
        self.refunds.append(Tracked(done.id, tracked.shop_id, model, order=order, row=done))

    @precondition(lambda self: self.refunds)
    @rule(which=ANY, word=st.sampled_from(["SUCCEEDED", "SUCCEEDED", "REFUSED", "PENDING"]))
    def refund_ends(self, which: int, word: str) -> None:
        """A gateway reports an outcome of a refund, even of one that ended."""
        self._refund_ends(self.pick(self.refunds, which), word)

    def _refund_ends(self, tracked: Tracked, word: str) -> None:
        self.take(
            f"refund: {word}", world.report_refund(self.tx, tracked.row, word, self.now), fine=True
        )
        tracked.order.refund_ends(tracked.model, word)

    @precondition(lambda self: self.refunds)
    @rule(which=ANY)
    def a_refund_is_reversed(self, which: int) -> None:
        """A gateway reports that any refund failed, even one that had succeeded."""
        tracked = self.pick(self.refunds, which)
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
        self.take(f"refund: reversed {tracked.model.status}", work, fine=True)
        tracked.order.reverse_refund(tracked.model)

    @precondition(lambda self: any(tracked.model.paid for tracked in self.orders))
    @rule(which=ANY, percent=st.sampled_from([1, 30, 50, 100, 120]))
    def somebody_refunds_at_the_gateway(self, which: int, percent: int) -> None:
        """Somebody refunds a part, all, or more than all of the order at the provider."""
        tracked = self.pick([tracked for tracked in self.orders if tracked.model.paid], which)
        order = tracked.model
        unit = reference_model.grain(order.currency)
        amount = max(unit, order.price * percent // 100 // unit * unit)
        model = order.refund_at_gateway(amount)
        work = world.report_refund_event(
            self.tx,
            self.find(tracked),
            "SUCCEEDED",
            self.now,
            minor=amount,
            ref=world.new_reference(),
        )
        name = "refund at the gateway" if model else "refund at the gateway fits no order"
        done = self.take(name, work, fine=True)
        assert (done is None) == (model is None)
        if done is not None and model is not None:
            assert (done.amount_minor, done.debit_minor) == (model.amount, model.debit)
            self.refunds.append(Tracked(done.id, tracked.shop_id, model, order=order, row=done))

    # ── settlement ──

    @precondition(lambda self: self.orders)
    @rule(which=ANY)
    def one_settles(self, which: int) -> None:
        """Settle an order, even before it is due."""
        tracked = self.order_of(which)
        fine = tracked.model.settle(self.now)
        work = orders.settle_one(self.tx, tracked.shop_id, tracked.key, self.now, "why")
        self.take("settle", work, fine=fine)

    @rule(which=ANY)
    def all_of_one_settle_early(self, which: int) -> None:
        shop_id = list(self.shops)[which % len(self.shops)]
        work = settlement.settle_batch(self.tx, shop_id, self.now, "why", early=True)
        self.take("settle early", work, fine=True)
        for tracked in self.orders:
            if tracked.shop_id == shop_id:
                tracked.model.settle(self.now)

    @rule()
    def what_is_due_settles(self) -> None:
        self.take("settle due", settlement.settle_due(self.db, self.now), fine=True)
        for tracked in self.orders:
            if tracked.model.paid and tracked.model.due_at <= self.now:
                tracked.model.settle(self.now)

    @rule()
    def reserves_are_released(self) -> None:
        done = [tracked.model.release(self.now) for tracked in self.orders]
        name = "release" if any(done) else "release nothing"
        self.take(name, settlement.release_reserves(self.db, self.now), fine=True)
