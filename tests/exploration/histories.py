"""Random histories of merchants, orders, refunds, disputes and payouts, driven by Hypothesis.

The histories take every event of every table of contract.md#transitions through the services, and
compare with ``exploration.reference_model``. After each step the books must be right and agree with
the model; the product must refuse each step that the model refuses, and change nothing. At the end
of a history all that is under way ends, and the sums of every order's entries must agree with the
model.
"""

from decimal import Decimal
from typing import Final

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from exploration import reference_model
from exploration.history_state import ANY, Tracked
from exploration.order_rules import OrderRules
from opentill import adjustments, disputes, payouts
from opentill.adjustments import AdjustmentRequest
from opentill.payouts import PayoutRequest
from support import world
from support.world import new_reference

PATHS: Final = {  # the statuses up to the one that a gateway reports of a dispute
    "OPENED": ("OPEN",),
    "WON": ("OPEN", "WON"),
    "LOST": ("OPEN", "LOST"),
    "RECOVERED": ("OPEN", "LOST", "RECOVERED"),
}
SUM: Final = """
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
        which=ANY,
        word=st.sampled_from(["OPENED", "OPENED", "OPENED", *PATHS]),
        percent=st.sampled_from([None, None, 100, 40, 1, 200]),
    )
    def a_gateway_disputes(self, which: int, word: str, percent: int | None) -> None:
        """A gateway reports a dispute: of a part, of too much, or with its end first."""
        tracked = self.pick([tracked for tracked in self.orders if tracked.model.paid], which)
        order = tracked.model
        named = order.price - order.held()
        if percent is not None:
            unit = reference_model.grain(order.currency)
            named = max(unit, order.price * percent // 100 // unit * unit)
        ref = world.new_reference()  # disputes that fit no order have their own references as well
        fresh = self.find(tracked)
        work = world.report_dispute(self.tx, fresh, word, self.now, ref=ref, minor=named)
        model = order.open_dispute(named)
        done = self.take(f"dispute: {word}{'' if model else ' ignored'}", work, fine=True)
        assert (done is None) == (model is None)
        if done is None or model is None:
            return
        self.disputes.append(Tracked(done.id, tracked.shop_id, model, order=tracked, ref=ref))
        self._follow(self.disputes[-1], word)

    def _follow(self, tracked: Tracked, word: str) -> None:
        """Take the transitions from a dispute's status to the reported one, in the model."""
        path = PATHS[word]
        if tracked.model.status in path:
            for status in path[path.index(tracked.model.status) + 1 :]:
                assert tracked.order.model.decide(tracked.model, status.lower(), self.now)

    @precondition(lambda self: any(tracked.ref for tracked in self.disputes))
    @rule(which=ANY, word=st.sampled_from(sorted(PATHS)))
    def a_gateway_goes_on(self, which: int, word: str) -> None:
        """Repeated and contradictory reports change nothing."""
        tracked = self.pick([tracked for tracked in self.disputes if tracked.ref], which)
        work = world.report_dispute(
            self.tx,
            self.find(tracked.order),
            word,
            self.now,
            ref=tracked.ref,
            minor=tracked.model.amount,
        )
        self.take(f"dispute: {word} {tracked.model.status}", work, fine=True)
        self._follow(tracked, word)

    @precondition(lambda self: self.orders)
    @rule(which=ANY, percent=st.sampled_from([None, 100, 40, 0, 101]))
    def the_operator_disputes(self, which: int, percent: int | None) -> None:
        tracked = self.order_of(which)
        order, left = tracked.model, tracked.model.price - tracked.model.held()
        named = None
        if percent is not None:
            unit = reference_model.grain(order.currency)
            named = left * percent // 100 // unit * unit + (unit if percent > 100 else 0)
        model = order.open_dispute(named) if named is None or 0 < named <= left else None
        work = disputes.open_manually(
            self.tx, tracked.shop_id, tracked.key,
            who="ann", reason="why", now=self.now, amount_minor=named,
        )  # fmt: skip
        done = self.take("dispute by hand", work, fine=model is not None)
        if done is not None:
            self.disputes.append(Tracked(done.id, tracked.shop_id, model, order=tracked, ref=None))

    @precondition(lambda self: self.disputes)
    @rule(which=ANY, event=st.sampled_from(["won", "lost", "lost", "recovered", "recovered"]))
    def the_operator_decides(self, which: int, event: str) -> None:
        self._decides(self.pick(self.disputes, which), event)

    def _decides(self, tracked: Tracked, event: str) -> None:
        fine = tracked.order.model.decide(tracked.model, event, self.now)
        work = disputes.decide(
            self.tx, tracked.shop_id, tracked.key, event, who="ann", reason="why", now=self.now
        )
        self.take(f"dispute {event} by hand", work, fine=fine)

    # ── payouts and adjustments ──

    def _amount(self, shop: reference_model.Shop, account: str, percent: int) -> int:
        """Return a percentage of an account, at least one unit."""
        unit = reference_model.grain(shop.currency)
        has = shop.sum_frozen_manually if account == "frozen" else abs(shop.accounts[account])
        return max(unit, has * percent // 100 // unit * unit)

    @rule(
        which=ANY,
        percent=st.sampled_from([None, 10, 60, 100, 120]),
        fee=st.sampled_from([0, 0, 100]),
    )
    def pays_out(self, which: int, percent: int | None, fee: int) -> None:
        shop_id = list(self.shops)[which % len(self.shops)]
        shop = self.shops[shop_id]
        amount = None if percent is None else self._amount(shop, "available", percent)
        model = shop.pay_out(amount, fee)
        payout_request = PayoutRequest(
            amount_minor=amount, fee_minor=fee, reference=new_reference(), reason="why", by="ann"
        )
        work = payouts.create(self.tx, shop_id, payout_request, None, self.now)
        done = self.take("payout", work, fine=model is not None)
        if done is not None and model is not None:
            assert done.amount_minor == model.amount
            self.payouts.append(Tracked(done.id, shop_id, model))

    @precondition(lambda self: self.payouts)
    @rule(which=ANY, event=st.sampled_from(["paid", "failed", "returned"]))
    def a_payout_ends(self, which: int, event: str) -> None:
        self._payout_ends(self.pick(self.payouts, which), event)

    def _payout_ends(self, tracked: Tracked, event: str) -> None:
        fine = self.shops[tracked.shop_id].payout_ends(tracked.model, event)
        if event == "paid":
            work = payouts.pay(self.tx, tracked.key, "TRN", "why", "ann", self.now)
        elif event == "returned":
            work = payouts.record_return(self.tx, tracked.key, "why", "ann", self.now)
        else:
            work = payouts.fail(self.tx, tracked.key, "why", "ann", self.now)
        self.take(f"payout {event}", work, fine=fine)

    @rule(
        which=ANY,
        kind=st.sampled_from([*adjustments.KINDS, "unfreeze", "correct"]),
        percent=st.sampled_from([-120, -100, -30, 10, 50, 100, 101]),
        account=st.sampled_from(["available", "pending"]),
        waits=st.sampled_from([False, False, True]),
    )  # fmt: skip
    def an_operator_moves(
        self, which: int, kind: str, percent: int, account: str, waits: bool
    ) -> None:
        frozen = [key for key, shop in self.shops.items() if shop.sum_frozen_manually]
        those = frozen if kind == "unfreeze" and frozen else list(self.shops)
        shop_id = those[which % len(those)]
        shop = self.shops[shop_id]
        own = [tracked.key for tracked in self.orders if tracked.shop_id == shop_id]
        account = account if kind == "correct" else "available"
        source = "frozen" if kind == "unfreeze" else account
        amount = self._amount(shop, source, abs(percent))
        if kind == "recharge":
            amount = reference_model.minor(str(abs(percent)), shop.currency)
        amount = -amount if kind == "correct" and percent < 0 else amount
        about = self.pick(own, which) if kind == "correct" and own else None
        adjustment_request = AdjustmentRequest(
            kind=kind, amount_minor=amount, reference=new_reference(), reason="why", by="ann",
            account=account, order_id=about,
        )  # fmt: skip
        work = adjustments.request(
            self.tx, shop_id, adjustment_request, Decimal(0) if waits else None, self.now
        )
        possible = kind != "correct" or about is not None
        fine = possible and (waits or shop.adjust(kind, amount, account))
        done = self.take(f"{kind}{' waits' if waits else ''}", work, fine=fine)
        if done is not None and waits:
            self.waiting.append(
                Tracked(done.id, shop_id, [kind, amount, account], status="WAITING")
            )

    @precondition(lambda self: self.waiting)
    @rule(which=ANY, approved=st.booleans(), by=st.sampled_from(["bob", "bob", "ann"]))
    def a_second_operator_decides(self, which: int, approved: bool, by: str) -> None:
        tracked = self.pick(self.waiting, which)
        fine = tracked.status == "WAITING" and not (approved and by == "ann")
        if approved:
            fine = fine and self.shops[tracked.shop_id].adjust(*tracked.model)
            work = adjustments.approve(self.tx, tracked.key, by, self.now)
        else:
            work = adjustments.reject(self.tx, tracked.key, by, "why", self.now)
        self.take("approve" if approved else "reject", work, fine=fine)
        if fine:
            tracked.status = "DONE" if approved else "REJECTED"

    # ── the end ──

    def teardown(self) -> None:
        try:
            if self.sound:
                self.closing_time()
        finally:
            self.loop.run_until_complete(self.transaction.rollback())

    def closing_time(self) -> None:
        """End all that is under way, let years pass, and compare the sums."""
        for number, refund in enumerate(self.refunds):
            self._refund_ends(refund, "REFUSED" if number % 3 == 2 else "SUCCEEDED")
        for number, dispute in enumerate(self.disputes):
            if dispute.model.status == "OPEN":
                self._decides(dispute, "lost" if number % 2 else "won")
        for payout in self.payouts:
            self._payout_ends(payout, "paid")
        for place, attempt in enumerate(self.attempts):
            if attempt.status in reference_model.UNDECIDED:
                self._says(place, "VOIDED", None)
        self.now += 20 * 366 * world.DAY
        self.sessions_grow_old()
        self.what_is_due_settles()
        self.now += 366 * world.DAY
        self.reserves_are_released()
        self.all_is_well()
        for tracked in self.orders:
            assert tracked.model.closed(), tracked.model.status
            (row,) = self._rows(SUM, tracked.key)
            came = tracked.model.comes_to()
            assert dict(zip(reference_model.ACCOUNTS, row, strict=True)) == came, (
                tracked.model.status
            )
            ending = f"closed {tracked.model.status} {tracked.model.terms['refund_fee_policy']}"
            self.tally[ending] = self.tally.get(ending, 0) + 1
        for shop in self.shops.values():
            assert (shop.accounts["reserve"], shop.accounts["frozen"]) == (
                0,
                shop.sum_frozen_manually,
            )
        names = " + ".join(f"sum({name})" for name in reference_model.ACCOUNTS)
        for _, total in self._rows(f"select currency, {names} from balances group by 1"):
            assert total == 0
