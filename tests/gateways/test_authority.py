"""A gateway's reports count for its own payments only.

Each gateway reports, by genuine callbacks, on payments of every gateway. A report on its own
payment counts; one on another's changes nothing, gets the same response, and is logged.
"""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

import httpx2
import msgspec
import pytest
import structlog

from gateways.several_gateways import NAMES, Several
from opentill import callbacks, orders, refunds
from opentill.core import metrics
from opentill.core.ids import new_id
from opentill.db.database import Tx
from opentill.gateways import GatewayPaymentEvent, Method, PaymentOutcome
from opentill.gateways.registry import BUILT_IN
from opentill.orders import Order, PaymentAttempt
from opentill.reconciliation.service import reconcile
from opentill.sandbox.callbacks import sign
from support import epay_gateway_server, world
from support.api_server import SECRETS

REPORTERS: Final = ("sandbox", "stripe", "epay")
OWNERS: Final = NAMES
METHOD: Final[Method] = "ALIPAY"


def test_every_built_in_gateway_is_covered() -> None:
    assert set(OWNERS) == set(BUILT_IN)


class Subject(msgspec.Struct, frozen=True):
    """The subject of a report: an attempt, and its refund if there is one."""

    order: Order
    attempt: PaymentAttempt
    refund_id: str = ""


# ── what there is to report of: made through the services, by the gateway that owns it ───────────


async def waiting(tx: Tx, gateway: str, order: Order | None = None) -> Subject:
    """Create a payment in progress."""
    order = order or await world.create_order(tx)
    return Subject(order, await world.submit_attempt(tx, order, gateway=gateway))


async def paid(tx: Tx, gateway: str) -> Subject:
    """Create a confirmed payment."""
    subject = await waiting(tx, gateway)
    await world.report_payment(tx, subject.attempt, "SUCCEEDED", provider_ref=f"at_{gateway}")
    return subject


async def refunding(tx: Tx, gateway: str) -> Subject:
    """Create a refund in progress."""
    subject = await paid(tx, gateway)
    order = await orders.find(tx, subject.order.merchant_id, subject.order.id)
    refund = await world.create_refund(tx, order)
    return msgspec.structs.replace(subject, refund_id=refund.id)


async def duplicate(tx: Tx, gateway: str) -> Subject:
    """Create a duplicate payment, whose refund has the attempt's id."""
    first = await waiting(tx, gateway)
    await world.report_payment(tx, first.attempt, "DECLINED")
    order = await orders.find(tx, first.order.merchant_id, first.order.id)
    await world.pay_order(tx, order)
    again = await world.report_payment(tx, first.attempt, "SUCCEEDED")
    assert again.status == "DUPLICATE"
    return msgspec.structs.replace(first, refund_id=first.attempt.id)


async def disputed(tx: Tx, gateway: str) -> Subject:
    """Create a disputed payment."""
    subject = await paid(tx, gateway)
    await world.report_dispute(tx, subject.order, "OPENED", ref=f"dispute of {subject.attempt.id}")
    return subject


# ── how gateways say it ──────────────────────────────────────────────────────────────────────────

Claim = tuple[str, Any]  # what of it, and its status


def epay_notice(epay: epay_gateway_server.EpayServer, number: str) -> dict[str, str]:
    """Create a paid order at the Epay server and return its notice."""
    epay.orders[number] = {
        "trade_no": f"T{len(epay.orders)}", "out_trade_no": number, "type": "alipay",
        "pid": int(epay_gateway_server.PID), "name": "A mug", "money": "9.99", "status": 0,
    }  # fmt: skip
    return epay.pay(number)


class Reports:
    """Sends reports of gateways to a server, and reads their effects."""

    def __init__(self, several: Several) -> None:
        """Use the fixture."""
        self.api_server, self.stripe, self.epay = several.api_server, several.stripe, several.epay

    def by(self, gateway: str, subject: Subject, report: Claim) -> httpx2.Response | None:
        """Send a report as a gateway; return None if the gateway has no such report."""
        path = f"/gateways/{gateway}/callback"
        if gateway == "epay":
            if report != ("payment", "succeeded"):
                return None
            return self.api_server.http.get(path, params=epay_notice(self.epay, subject.attempt.id))
        make = self._sandbox if gateway == "sandbox" else self._stripe
        headers, body = make(subject, *report)
        return self.api_server.http.post(path, content=body, headers=headers)

    def _sandbox(self, subject: Subject, what: str, status: str) -> tuple[dict[str, str], bytes]:
        attempt = subject.attempt
        money = {"amount_minor": attempt.amount_minor, "currency": attempt.currency}
        about: dict[str, Any] = {"status": status, **money}
        match what:
            case "payment":
                about |= {"id": attempt.id, "method": METHOD, "action_url": "", "qr_text": None}
                about |= {"decline_code": None}
            case "refund":
                about |= {"id": subject.refund_id, "payment_id": attempt.id, "error": None}
            case _:
                about |= {"id": f"dispute of {attempt.id}", "payment_id": attempt.id}
                about |= {"reason": "fraudulent"}
        event = {"type": f"{what}.{status}", "data": {what: about}}
        body = json.dumps(event).encode()
        signature = sign(SECRETS["sandbox_secret"], body, int(time.time()))
        return {"sandbox-signature": signature}, body

    def _stripe(self, subject: Subject, what: str, status: str) -> tuple[dict[str, str], bytes]:
        attempt = subject.attempt
        metadata = {"attempt_id": attempt.id}
        match what, status:
            case "payment", "succeeded":
                return self.stripe.sign_event("payment_intent.succeeded", self._intent(attempt))
            case "payment", _:
                about = {"id": "cs_1", "status": "expired", "payment_status": "unpaid"}
                return self.stripe.sign_event(
                    "checkout.session.expired", about | {"metadata": metadata}
                )
            case "refund", _:
                metadata |= {"refund_id": subject.refund_id}
                about = {"id": "re_1", "status": status, "metadata": metadata}
                about |= {"amount": attempt.amount_minor, "currency": attempt.currency.lower()}
                return self.stripe.sign_event("refund.updated", about)
            case _:
                # It does not carry our id along: whose it is, is asked for by the payment's name.
                ref = self._intent(attempt)["id"]
                stripe_status = {"opened": "needs_response"}.get(status, status)
                about = self.stripe.dispute(ref, stripe_status, id=f"dispute of {attempt.id}")
                return self.stripe.sign_event("charge.dispute.updated", about)

    def _intent(self, attempt: PaymentAttempt) -> dict[str, Any]:
        name = f"pi_{attempt.id}"
        self.stripe.intents[name] = {
            "id": name, "object": "payment_intent", "status": "succeeded", "currency": "usd",
            "amount": attempt.amount_minor, "amount_received": attempt.amount_minor,
            "metadata": {"attempt_id": attempt.id}, "latest_charge": name.replace("pi", "ch"),
        }  # fmt: skip
        return self.stripe.intents[name]

    def subject(self, make: Callable[[Tx, str], Awaitable[Subject]], gateway: str) -> Subject:
        """Create the subject of a report."""
        return self.api_server.tx(lambda tx: make(tx, gateway))

    def rows(self) -> dict[str, list[str]]:
        """Return every row of every table."""
        return self.api_server.tx(world.dump_rows)

    def statuses(self, subject: Subject) -> tuple[str, str, str]:
        """Return the statuses of the order, the attempt and the refund."""
        (row,) = self.api_server.sql(
            "select o.status, a.status as attempt, r.status as refund from orders o"
            " join payment_attempts a on a.merchant_id = o.merchant_id and a.id = $2"
            " left join refunds r on r.merchant_id = o.merchant_id and r.id = $3"
            " where o.id = $1",
            subject.order.id, subject.attempt.id, subject.refund_id,
        )  # fmt: skip
        return row["status"], row["attempt"], row["refund"] or ""


@pytest.fixture(scope="module")
def reports(several: Several) -> Reports:
    """Reports to the server of this module."""
    return Reports(several)


# ── the matrix ───────────────────────────────────────────────────────────────────────────────────

_PAID = "SUCCEEDED"
EVENTS: Final = (
    # what is there, what is said of it, and where it stands if that counts: order, attempt, refund
    (waiting, ("payment", "succeeded"), ("PAID", _PAID, "")),
    (waiting, ("payment", "declined"), ("PENDING", "DECLINED", "")),
    (waiting, ("payment", "voided"), ("REVOKED", "VOIDED", "")),
    (refunding, ("refund", "succeeded"), ("REFUNDED", _PAID, "SUCCEEDED")),
    (refunding, ("refund", "failed"), ("PAID", _PAID, "FAILED")),
    (duplicate, ("refund", "succeeded"), ("PAID", "GIVEN_BACK", "")),
    (duplicate, ("refund", "failed"), ("PAID", "DUPLICATE", "")),
    (paid, ("dispute", "opened"), ("DISPUTED", _PAID, "")),
    (waiting, ("dispute", "opened"), ("CREATING", "SUBMITTED", "")),  # it waits for its payment
    (disputed, ("dispute", "won"), ("PAID", _PAID, "")),
    (disputed, ("dispute", "lost"), ("CHARGEBACK", _PAID, "")),
)


@pytest.mark.parametrize("reporter", REPORTERS)
@pytest.mark.parametrize(
    ("make", "report", "expected"),
    [pytest.param(*row, id=f"{row[0].__name__}-{'-'.join(row[1])}") for row in EVENTS],
)
def test_only_the_gateway_of_a_payment_may_report_on_it(
    reports: Reports, reporter: str, make: Any, report: Claim, expected: tuple[str, str, str]
) -> None:
    accepted = None
    for owner in sorted(OWNERS, key=lambda name: name != reporter):
        subject = reports.subject(make, owner)
        before, counter = reports.rows(), _counted(reporter, owner)
        with structlog.testing.capture_logs() as lines:
            answer = reports.by(reporter, subject, report)
        if answer is None:
            return
        assert answer.status_code == 200
        if owner == reporter:
            accepted = answer.content
            if (reporter, report[1]) == ("stripe", "voided"):
                continue  # it has only one word for what came to nothing
            assert reports.rows() != before
            assert reports.statuses(subject) == expected
            continue
        assert answer.content == accepted  # so that it does not say it again
        assert reports.rows() == before
        assert _warnings(lines) == [(reporter, owner, subject.attempt.id)]
        assert _counted(reporter, owner) == counter + 1


def _warnings(lines: Any) -> list[tuple[str, str, str]]:
    return [
        (line["gateway"], line["owner"], line["attempt"])
        for line in lines
        if line["event"] == "gateway event about another gateway's payment"
        and line["log_level"] == "warning"
    ]


def _counted(reporter: str, owner: str) -> float:
    """Read the one series: to write down all that a worker has counted by now takes long."""
    labels = {"gateway": reporter, "owner": owner}
    (family,) = metrics._counter(metrics._FOREIGN_EVENTS).collect()
    return sum(one.value for one in family.samples if one.labels == labels and "total" in one.name)


def test_ignored_reports_are_counted_in_the_metrics() -> None:
    metrics.count_foreign_gateway_event("stripe", "sandbox")
    expected = f'_total{{gateway="stripe",owner="sandbox"}} {_counted("stripe", "sandbox")}\n'
    assert f"opentill_foreign_gateway_events{expected}" in metrics.render().decode()


@pytest.mark.parametrize("status", ["succeeded", "failed"])
@pytest.mark.parametrize("reporter", ["sandbox", "stripe"])
def test_a_refund_cannot_be_ended_with_the_id_of_another_payment(
    reports: Reports, reporter: str, status: str
) -> None:
    """A gateway reports one of its payments with a refund of another payment."""

    async def make(tx: Tx, owner: str) -> Subject:
        theirs = await refunding(tx, owner)
        product = await world.create_product(tx, theirs.order.merchant_id)
        session = await world.create_session(tx, theirs.order.merchant_id, product.id)
        order = await orders.find(tx, theirs.order.merchant_id, session.order_id)
        own = await waiting(tx, reporter, order)
        return msgspec.structs.replace(own, refund_id=theirs.refund_id)

    for owner in OWNERS:
        subject = reports.subject(make, owner)
        before = reports.rows()
        with structlog.testing.capture_logs() as lines:
            answer = reports.by(reporter, subject, ("refund", status))
        assert answer is not None
        assert answer.status_code == 200
        assert reports.rows() == before
        warnings = _warnings(lines)
        assert warnings == ([(reporter, owner, subject.attempt.id)] if owner != reporter else [])


def test_a_batch_of_reports_ignores_the_foreign_ones_only(reports: Reports) -> None:
    """Payments confirmed in one batch by their own gateway, another one, or both."""

    async def crowd(tx: Tx) -> list[Subject]:
        return [await waiting(tx, REPORTERS[n % 3]) for n in range(12)]

    subjects = reports.api_server.tx(crowd)
    gathering = callbacks.Confirmations(reports.api_server.app)

    async def report() -> list[Any]:
        calls = []
        for number, subject in enumerate(subjects):
            owner = subject.attempt.gateway
            other = REPORTERS[(number + 1) % 3]
            outcome = PaymentOutcome(status="SUCCEEDED")
            gateway_event = GatewayPaymentEvent(attempt_id=subject.attempt.id, outcome=outcome)
            reporters = {0: [other], 1: [owner], 2: [other, owner], 3: [owner, other]}[number % 4]
            calls += [(name == owner, gathering.confirm(name, gateway_event)) for name in reporters]
        results = await asyncio.gather(*(work for _, work in calls), return_exceptions=True)
        return [(own, result) for (own, _), result in zip(calls, results, strict=True)]

    for own, result in reports.api_server.run(report()):
        assert (result is None) is own, result
    for number, subject in enumerate(subjects):
        status = "CREATING" if number % 4 == 0 else "PAID"
        assert reports.statuses(subject)[0] == status


def test_a_settlement_report_matches_payments_of_its_own_gateway_only(reports: Reports) -> None:
    async def make(tx: Tx, gateway: str) -> list[str]:
        payment, refund = await paid(tx, gateway), await refunding(tx, gateway)
        back, loss = await duplicate(tx, gateway), await disputed(tx, gateway)
        await world.report_refund(tx, await _refund(tx, refund), "SUCCEEDED")
        attempt = await orders.find_attempt(tx, back.order.merchant_id, back.attempt.id)
        await orders.apply_duplicate_return(
            tx, attempt, world.RefundOutcome(status="SUCCEEDED"), world.NOW
        )
        ref = f"dispute of {loss.attempt.id}"
        await world.report_dispute(tx, loss.order, "LOST", ref=ref)
        return [
            f"payment,{payment.attempt.id},9.99,USD,{world.NOW}",
            f"refund,{refund.refund_id},9.99,USD,{world.NOW}",
            f"refund,{back.refund_id},9.99,USD,{world.NOW}",
            f"chargeback,{ref},9.99,USD,{world.NOW}",
        ]

    head = "kind,reference,amount,currency,settled_at"
    for owner in OWNERS:
        rows = reports.api_server.tx(lambda tx, owner=owner: make(tx, owner))
        for reporter in OWNERS:
            before = reports.rows()
            lines = [f"{line}\n" for line in (head, *rows)]
            result = reports.api_server.run(reconcile(reports.api_server.app.db, reporter, lines))
            differences = [one.what for one in result.differences if one.line is not None]
            own = owner == reporter
            assert (result.matched, len(differences)) == ((4, 0) if own else (0, 4))
            assert set(differences) <= {"missing in ledger"}
            assert reports.rows() == before


async def _refund(tx: Tx, subject: Subject) -> Any:
    return await refunds.find(tx, subject.order.merchant_id, subject.refund_id)


def test_reports_on_unknown_payments_are_acknowledged_without_effect(reports: Reports) -> None:
    """A dispute of a payment that is not ours, and reports on attempts that do not exist."""
    reports.stripe.intents["pi_alien"] = {
        "id": "pi_alien", "object": "payment_intent", "status": "succeeded", "currency": "usd",
        "amount": 999, "amount_received": 999, "metadata": {}, "latest_charge": "ch_alien",
    }  # fmt: skip
    alien = reports.stripe.sign_event(
        "charge.dispute.created", reports.stripe.dispute("pi_alien", "needs_response")
    )
    subject = reports.subject(waiting, "sandbox")
    nobody = msgspec.structs.replace(subject.attempt, id=new_id("att"))
    before = reports.rows()
    headers, body = alien
    path = "/gateways/stripe/callback"
    assert reports.api_server.http.post(path, content=body, headers=headers).status_code == 200
    for what in ("payment", "dispute"):
        status = "succeeded" if what == "payment" else "opened"
        missing = Subject(subject.order, nobody)
        answer = reports.by("sandbox", missing, (what, status))
        assert answer is not None
        assert answer.status_code == 200
    assert reports.rows() == before
