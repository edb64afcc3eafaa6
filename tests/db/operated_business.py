"""A merchant whose payments the operator handles; see ``test_tenant_isolation``."""

from collections.abc import AsyncIterator
from datetime import UTC
from functools import partial
from typing import Final

import msgspec

from db.paid_business import PaidBusiness
from opentill import (
    adjustments,
    checkouts,
    disputes,
    figures,
    ledger,
    merchants,
    onboarding,
    orders,
    payouts,
    products,
    refunds,
    webhooks,
)
from opentill.db.database import Tx
from opentill.disputes import jobs as dispute_jobs
from opentill.figures import dispute_rates
from opentill.figures import jobs as figure_jobs
from opentill.gateways.model import GatewayPaymentEvent, PaymentOutcome
from opentill.http import ignored_log, refused
from opentill.list_counts import FOREVER
from opentill.orders.payments import confirmation
from opentill.refunds import jobs as refund_jobs
from support import epay_numbers, world
from support.pictures import PICTURE, png

DAY: Final = 86_400_000


class OperatedBusiness(PaidBusiness):
    """The merchant's disputes, and what the operator does, one method for each area."""

    def dispute_orders(self) -> None:
        """Open, annotate, win, lose and recover disputes; match and dismiss unmatched reports."""
        api_server = self.api_server
        order, other = self.settle_order(), self.settle_order()
        dispute = self.shop.open_dispute(order.id)
        api_server.tx(
            lambda tx: disputes.add_note(tx, self.id, dispute.id, "letter", "op", self.now)
        )
        assert api_server.tx(lambda tx: disputes.find_order_ids(tx, self.id, [dispute.id]))
        api_server.tx(lambda tx: disputes.list_notes(tx, dispute))
        actor = merchants.Actor("op", "letter")
        for content in (b"%PDF-1 one %%EOF", b"%PDF-1 two %%EOF", b"%PDF-1 two %%EOF"):
            api_server.run(
                disputes.add_evidence(
                    self.app.db,
                    self.id,
                    dispute.id,
                    "a.pdf",
                    content,
                    actor=actor,
                    now=self.advance(),
                )
            )
        (evidence, removed) = api_server.tx(lambda tx: disputes.list_evidence(tx, dispute))
        api_server.tx(
            lambda tx: disputes.remove_evidence(
                tx, self.id, dispute.id, removed.id, actor=actor, now=self.now
            )
        )
        api_server.tx(lambda tx: disputes.read_evidence(tx, self.id, evidence.id))
        api_server.tx(lambda tx: disputes.set_deadline(tx, self.id, dispute.id, DAY, self.now))
        api_server.tx(
            lambda tx: disputes.respond(
                tx, self.id, dispute.id, "CONTESTED", who="op", now=self.now
            )
        )
        answered = msgspec.structs.replace(dispute, status="OPEN", response="CONTESTED")
        assert api_server.tx(lambda tx: disputes.find_unforwarded(tx, self.id, [answered]))
        api_server.tx(
            lambda tx: disputes.record_forwarding(tx, self.id, dispute.id, "letter", self.now)
        )
        for status in (None, "OPEN", "TO_RESPOND", "UNDER_REVIEW"):
            api_server.tx(
                lambda tx, status=status: disputes.page(tx, self.id, status, (0, FOREVER), 1, 50)
            )
        api_server.tx(lambda tx: disputes.sum_at_stake(tx, self.id))
        file = disputes.export_csv(self.app.db, self.id, None, (0, FOREVER), UTC)
        assert api_server.run(self._length(file))
        for event in ("lost", "recovered"):
            api_server.tx(
                lambda tx, event=event: disputes.decide(
                    tx, self.id, dispute.id, event, who="op", reason="bank", now=self.now
                )
            )
        api_server.tx(lambda tx: ledger.list_entries_of(tx, self.id, "dispute", dispute.id))
        api_server.tx(lambda tx: world.report_dispute(tx, other, "OPENED", self.now, ref="D-1"))
        api_server.tx(lambda tx: world.report_dispute(tx, other, "OPENED", self.now, ref="D-2"))
        api_server.tx(lambda tx: disputes.list_unmatched(tx, self.id))
        api_server.tx(lambda tx: world.report_dispute(tx, other, "WON", self.advance(), ref="D-1"))
        api_server.run(dispute_jobs.match(self.app.db, self.advance(120_000)))
        api_server.tx(lambda tx: world.report_dispute(tx, other, "OPENED", self.now, ref="D-3"))
        (unmatched, *_) = api_server.tx(lambda tx: disputes.list_unmatched(tx, self.id))
        api_server.tx(
            lambda tx: disputes.dismiss(
                tx, self.id, unmatched.gateway, unmatched.gateway_ref, "op", self.now
            )
        )
        assert api_server.tx(lambda tx: disputes.count_waiting(tx, self.id, self.now)).disputes
        self.refund_at_the_provider()
        for path in ("/v1/disputes", f"/v1/disputes/{dispute.id}"):
            self.shop.data("GET", path)

    def read_contents(self, payout_id: str) -> None:
        """Read what a payout contains."""

        async def read(tx: Tx) -> figures.PayoutContents:
            contents = await figures.find_payout_contents(tx, self.id, payout_id)
            assert contents is not None
            assert await figures.list_payout_items(tx, self.id, contents, 1, 50)
            return contents

        async def read_all(contents: figures.PayoutContents) -> int:
            items = figures.all_payout_items(self.app.db, self.id, contents)
            return len([item async for item in items])

        assert self.api_server.run(read_all(self.api_server.tx(read)))

    def refund_at_the_provider(self) -> None:
        """Report refunds that were made at the provider, reversed, or fit no order."""
        api_server = self.api_server
        paid = self.shop.create_paid_order()
        order = api_server.tx(lambda tx: orders.find(tx, self.id, paid["id"]))
        for number, minor in enumerate((100, 10**6)):
            for status in ("SUCCEEDED", "SUCCEEDED", "REFUSED") if not number else ("SUCCEEDED",):
                api_server.tx(
                    lambda tx, status=status, minor=minor, number=number: world.report_refund_event(
                        tx, order, status, self.now, minor=minor, ref=f"rf_{number}"
                    )
                )
        api_server.tx(
            lambda tx: world.report_refund_event(tx, order, "SUCCEEDED", self.now, ref="rf_2")
        )
        # The order is refunded now, which changes the reason why the refund is unmatched.
        api_server.tx(
            lambda tx: world.report_refund_event(
                tx, order, "SUCCEEDED", self.now, minor=10**6, ref="rf_1"
            )
        )
        api_server.run(refund_jobs.match(self.app.db, self.advance(120_000)))
        (case, *_) = api_server.tx(lambda tx: refunds.list_open(tx, self.id))
        api_server.tx(
            lambda tx: refunds.dismiss(tx, self.id, case.gateway, case.gateway_ref, "op", self.now)
        )

    def run_the_operators_functions(self) -> None:
        """Create and decide payouts and adjustments; change terms, keys and the profile."""
        api_server = self.api_server
        for end in ("paid", "failed"):
            payout = self.shop.create_payout()
            if end == "paid":
                api_server.tx(
                    lambda tx, p=payout: payouts.pay(tx, p.id, "B1", "sent", "op", self.now)
                )
            else:
                api_server.tx(lambda tx, p=payout: payouts.fail(tx, p.id, "closed", "op", self.now))
        self.shop.create_payout()
        for path in ("/v1/payouts", "/v1/payouts?status=PAID", f"/v1/payouts/{payout.id}"):
            self.shop.data("GET", path)
        self.read_contents(payout.id)
        api_server.tx(lambda tx: payouts.search(tx, self.id, "PAID"))
        assert api_server.tx(lambda tx: payouts.find_first_since(tx, self.id, "USD", 0))
        api_server.tx(lambda tx: payouts.failed_since(tx, self.id, 0))
        for is_approved in (True, False):
            payout_request = payouts.PayoutRequest(
                amount_minor=1, reference=world.new_reference(), reason="why", by="tester"
            )
            create_request = partial(
                payouts.request, merchant_id=self.id, requested=payout_request,
                above=world.Decimal(0), now=self.now,
            )  # fmt: skip
            waiting = api_server.tx(create_request)
            assert api_server.tx(create_request).id == waiting.id
            if is_approved:
                api_server.tx(partial(payouts.approve, request_id=waiting.id, by="b", now=self.now))
            else:
                actor = merchants.Actor("b", "no")
                api_server.tx(
                    partial(payouts.reject, request_id=waiting.id, actor=actor, now=self.now)
                )
        adjustment_request = partial(
            adjustments.AdjustmentRequest, amount_minor=50, reason="why", by="tester"
        )
        limits: dict[adjustments.Kind, int | None]
        limits = {"freeze": None, "unfreeze": None, "recharge": 0, "fee": 0}
        for kind, limit in limits.items():
            requested = adjustment_request(kind=kind, reference=world.new_reference())
            above = None if limit is None else world.Decimal(limit)
            adjustment, repeated = (
                api_server.tx(
                    lambda tx, r=requested, a=above: adjustments.request(
                        tx, self.id, r, a, self.now
                    )
                )
                for _ in range(2)
            )
            assert repeated.id == adjustment.id
            if adjustment.status == "WAITING":
                api_server.tx(lambda tx: adjustments.list_waiting(tx, self.id))
                api_server.tx(
                    lambda tx, m=adjustment: adjustments.approve(tx, m.id, "second", self.now)
                )
        correction = adjustment_request(
            kind="correct", reference=world.new_reference(), order_id=self.pay_order().id
        )
        api_server.tx(lambda tx: adjustments.request(tx, self.id, correction, None, self.now))
        api_server.tx(
            lambda tx: merchants.change(tx, self.id, self.now, who="op", reason="x", name="N")
        )
        api_server.tx(
            lambda tx: merchants.change(
                tx, self.id, self.now, who="op", reason="x", overdraft_minor=5
            )
        )
        for logo in (PICTURE, None):
            api_server.tx(partial(self._profile, logo=logo))
        self.change_status()
        api_server.tx(lambda tx: merchants.history(tx, self.id))
        key = api_server.tx(lambda tx: merchants.create_key(tx, self.id, "production", self.now))
        api_server.tx(lambda tx: merchants.rename_key(tx, self.id, key.id, "Till", self.now))
        api_server.tx(lambda tx: merchants.keys(tx, self.id))
        self.shop.get("/v1/nothing")
        api_server.run(api_server._server.state.refused.write(self.app.db))
        assert api_server.tx(lambda tx: refused.newest(tx, self.id, self.now))
        self.shop.data("PATCH", f"/v1/products/{self.product}", json={"sku": "1"})
        api_server.run(api_server._server.state.accepted.write(self.app.db))
        assert api_server.tx(lambda tx: ignored_log.newest(tx, self.id, self.now))

    def change_status(self) -> None:
        """Suspend and resume the merchant, switch a capability, add a note, find blockers."""
        actor, tx = merchants.Actor("op", "x"), self.api_server.tx
        for event in ("suspended", "resumed"):
            tx(
                partial(
                    merchants.change_status,
                    merchant_id=self.id,
                    event=event,
                    actor=actor,
                    now=self.now,
                )
            )
        for on in (False, True):
            switch = partial(merchants.set_capability, merchant_id=self.id, capability="refund")
            tx(partial(switch, on=on, actor=actor, now=self.now))
        tx(lambda tx: merchants.add_note(tx, self.id, "called", actor, self.now))
        tx(lambda tx: merchants.status_history(tx, self.id))
        tx(lambda tx: merchants.closed_at(tx, self.id))
        merchant = tx(lambda tx: merchants.find(tx, self.id))
        assert tx(lambda tx: onboarding.unfinished(tx, merchant)).blockers

    async def _profile(self, tx: Tx, logo: bytes | None) -> None:
        """Change the profile, and set the logo or remove it."""
        actor = merchants.Actor("op", "x")
        changes = {"display_name": "N", "legal_name": "L"} if logo else {"display_name": None}
        await merchants.change_profile(tx, self.id, changes, self.now, actor=actor)
        assert (await merchants.seller_at(tx, self.id, self.now)).legal_name == "L"
        digest = (await merchants.find(tx, self.id)).logo_sha256 or ""
        if logo is None:
            await merchants.remove_logo(tx, self.id, self.now, actor=actor, seen=digest)
        else:
            path = await products.store_image(tx, self.id, PICTURE, self.now)
            await products.find_image(tx, self.id, path.rpartition("/")[2])
            await products.store_image(tx, self.id, png(100, 100), self.now)
            await merchants.set_logo(tx, self.id, logo, self.now, actor=actor, seen=digest)
            digest = (await merchants.find(tx, self.id)).logo_sha256 or ""
            assert (await merchants.find_logo(tx, self.id, digest)).content == logo

    def count_figures(self) -> None:
        """Read figures before and after paid orders and declined attempts are counted."""
        for _ in range(2):
            self.pay_order()
            order = self.place_order()
            attempt = self.api_server.tx(
                lambda tx, order=order: world.submit_attempt(tx, order, self.now)
            )
            self.api_server.tx(
                lambda tx, attempt=attempt: world.report_payment(tx, attempt, "DECLINED", self.now)
            )
            self.api_server.run(figures.read(self.app.db, self.id, UTC, self.now))
            self.api_server.tx(lambda tx: orders.list_newest(tx, self.id, 10))
            self.api_server.run(figure_jobs.count_all(self.app.db))
            self.api_server.run(figures.read(self.app.db, self.id, UTC, self.advance()))
        month = dispute_rates.month_of(self.now)
        assert self.api_server.run(figures.read_rates(self.app.db, self.id, month, month))

    def read_payment_page(self) -> None:
        """Read the data of the dashboard's page of a payment."""
        self.shop.create_endpoint(url=self.epay_shop.inbox.url)
        order = self.settle_order()
        self.shop.open_dispute(order.id)
        adjustment = adjustments.AdjustmentRequest(
            kind="correct", amount_minor=5, reason="why", by="tester",
            reference=world.new_reference(), order_id=order.id,
        )  # fmt: skip
        causes: list[tuple[ledger.Cause, str]] = [("order", order.id), ("refund", "re_none")]

        async def read(tx: Tx) -> None:
            await adjustments.request(tx, self.id, adjustment, None, self.now)
            assert await adjustments.list_of_order(tx, self.id, order.id)
            assert await adjustments.list_newest(tx, self.id, 20)
            assert await ledger.find_entries(tx, self.id, causes)
            assert await disputes.list_for_order(tx, self.id, order.id)
            times = [row.at for row in await orders.history(tx, self.id, order.id)]
            events = await webhooks.find_order_events(tx, self.id, order.id, times, movable=True)
            assert await webhooks.find_deliveries_of(tx, self.id, [event.id for event in events])

        self.api_server.tx(read)

    def _pay_number_twice(self) -> None:
        """Pay an Epay number by its second order, and then by its first."""
        first = self.epay_shop.place_order(out_trade_no="N-3", type="creditcard")
        attempt = epay_numbers.start_attempt(self.epay_shop, first)
        declined = PaymentOutcome(status="DECLINED")
        self._apply(attempt, declined)
        session_id = first["payurl"].rpartition("/")[2]
        self.api_server.tx(lambda tx: checkouts.expire(tx, self.id, session_id, "test", self.now))
        self.epay_shop.pay(self.epay_shop.place_order(out_trade_no="N-3", type="creditcard"))
        outcome = PaymentOutcome(status="SUCCEEDED")
        gateway_event = GatewayPaymentEvent(attempt_id=attempt.id, outcome=outcome)
        report = orders.Report("sandbox", gateway_event)
        self.api_server.tx(lambda tx: confirmation.confirm_many(tx, [report], self.now))
        self._apply(attempt, outcome)

    def _apply(self, attempt: orders.PaymentAttempt, outcome: PaymentOutcome) -> None:
        self.api_server.tx(
            lambda tx: orders.apply_outcome(
                tx, self.id, attempt.id, outcome, self.now, gateway="sandbox"
            )
        )

    async def _length(self, file: AsyncIterator[bytes]) -> int:
        return sum([len(chunk) async for chunk in file])
