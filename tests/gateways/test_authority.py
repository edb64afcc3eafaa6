"""A gateway's word counts for the payments that went through it, and for no others.

Each gateway reports, by genuine callbacks, of payments of every gateway: of its own, and it counts;
of another's, and nothing changes, the gateway is answered as always, and the operator is told.
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
from support.several_gateways import NAMES, Several

REPORTERS: Final = ("sandbox", "stripe", "epay")
OWNERS: Final = NAMES
METHOD: Final[Method] = "ALIPAY"


def test_every_gateway_of_ours_is_here() -> None:
    assert set(OWNERS) == set(BUILT_IN)


class Subject(msgspec.Struct, frozen=True):
    """What a report is about: an attempt, and its refund where there is one."""

    order: Order
    attempt: PaymentAttempt
    refund_id: str = ""


# ── what there is to report of: made through the services, by the gateway that owns it ───────────


async def waiting(tx: Tx, gateway: str, order: Order | None = None) -> Subject:
    """Make a payment that is on its way."""
    order = order or await world.opened(tx)
    return Subject(order, await world.submitted(tx, order, gateway=gateway))


async def paid(tx: Tx, gateway: str) -> Subject:
    """Make a payment that was confirmed."""
    subject = await waiting(tx, gateway)
    await world.said(tx, subject.attempt, "SUCCEEDED", provider_ref=f"at_{gateway}")
    return subject


async def refunding(tx: Tx, gateway: str) -> Subject:
    """Make a refund that is on its way."""
    subject = await paid(tx, gateway)
    order = await orders.find(tx, subject.order.merchant_id, subject.order.id)
    refund = await world.refunded(tx, order)
    return msgspec.structs.replace(subject, refund_id=refund.id)


async def duplicate(tx: Tx, gateway: str) -> Subject:
    """Make a second payment of an order, which is to be given back under the attempt's id."""
    first = await waiting(tx, gateway)
    await world.said(tx, first.attempt, "DECLINED")
    order = await orders.find(tx, first.order.merchant_id, first.order.id)
    await world.paid(tx, order)
    again = await world.said(tx, first.attempt, "SUCCEEDED")
    assert again.status == "DUPLICATE"
    return msgspec.structs.replace(first, refund_id=first.attempt.id)


async def disputed(tx: Tx, gateway: str) -> Subject:
    """Make a payment that is disputed."""
    subject = await paid(tx, gateway)
    await world.dispute_said(tx, subject.order, "OPENED", ref=f"dispute of {subject.attempt.id}")
    return subject


# ── how gateways say it ──────────────────────────────────────────────────────────────────────────

Said = tuple[str, Any]  # what of it, and its status


def epay_notice(epay: epay_gateway_server.EpayServer, number: str) -> dict[str, str]:
    """Let the Epay server have an order of a number, paid, and return its notice."""
    epay.orders[number] = {
        "trade_no": f"T{len(epay.orders)}", "out_trade_no": number, "type": "alipay",
        "pid": int(epay_gateway_server.PID), "name": "A mug", "money": "9.99", "status": 0,
    }  # fmt: skip
    return epay.paid(number)


class Reports:
    """What the gateways of a server report, and what came of it there."""

    def __init__(self, several: Several) -> None:
        """Use the fixture."""
        self.api_server, self.stripe, self.epay = several.api_server, several.stripe, several.epay

    def by(self, gateway: str, subject: Subject, said: Said) -> httpx2.Response | None:
        """Report something as a gateway; None where it has no words for it."""
        path = f"/gateways/{gateway}/callback"
        if gateway == "epay":
            if said != ("payment", "succeeded"):
                return None
            return self.api_server.http.get(path, params=epay_notice(self.epay, subject.attempt.id))
        make = self._sandbox if gateway == "sandbox" else self._stripe
        headers, body = make(subject, *said)
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
                return self.stripe.signed("payment_intent.succeeded", self._intent(attempt))
            case "payment", _:
                about = {"id": "cs_1", "status": "expired", "payment_status": "unpaid"}
                return self.stripe.signed(
                    "checkout.session.expired", about | {"metadata": metadata}
                )
            case "refund", _:
                metadata |= {"refund_id": subject.refund_id}
                about = {"id": "re_1", "status": status, "metadata": metadata}
                about |= {"amount": attempt.amount_minor, "currency": attempt.currency.lower()}
                return self.stripe.signed("refund.updated", about)
            case _:
                # It does not carry our id along: whose it is, is asked for by the payment's name.
                ref = self._intent(attempt)["id"]
                told = {"opened": "needs_response"}.get(status, status)
                about = self.stripe.dispute(ref, told, id=f"dispute of {attempt.id}")
                return self.stripe.signed("charge.dispute.updated", about)

    def _intent(self, attempt: PaymentAttempt) -> dict[str, Any]:
        name = f"pi_{attempt.id}"
        self.stripe.intents[name] = {
            "id": name, "object": "payment_intent", "status": "succeeded", "currency": "usd",
            "amount": attempt.amount_minor, "amount_received": attempt.amount_minor,
            "metadata": {"attempt_id": attempt.id}, "latest_charge": name.replace("pi", "ch"),
        }  # fmt: skip
        return self.stripe.intents[name]

    def subject(self, make: Callable[[Tx, str], Awaitable[Subject]], gateway: str) -> Subject:
        """Make what is reported of."""
        return self.api_server.tx(lambda tx: make(tx, gateway))

    def rows(self) -> dict[str, list[str]]:
        """Return every row of every table."""
        return self.api_server.tx(world.dump)

    def standing(self, subject: Subject) -> tuple[str, str, str]:
        """Return where it stands: the status of the order, the attempt and the refund."""
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
    """Those that reach the one server of this file."""
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
    ("make", "said", "counted"),
    [pytest.param(*row, id=f"{row[0].__name__}-{'-'.join(row[1])}") for row in EVENTS],
)
def test_a_gateway_is_believed_about_its_own_payments_only(
    reports: Reports, reporter: str, make: Any, said: Said, counted: tuple[str, str, str]
) -> None:
    taken = None
    for owner in sorted(OWNERS, key=lambda name: name != reporter):
        subject = reports.subject(make, owner)
        before, counter = reports.rows(), _counted(reporter, owner)
        with structlog.testing.capture_logs() as lines:
            answer = reports.by(reporter, subject, said)
        if answer is None:
            return
        assert answer.status_code == 200
        if owner == reporter:
            taken = answer.content
            if (reporter, said[1]) == ("stripe", "voided"):
                continue  # it has only one word for what came to nothing
            assert reports.rows() != before
            assert reports.standing(subject) == counted
            continue
        assert answer.content == taken  # so that it does not say it again
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


def test_what_did_not_count_is_in_the_metrics() -> None:
    metrics.count_foreign_gateway_event("stripe", "sandbox")
    wanted = f'_total{{gateway="stripe",owner="sandbox"}} {_counted("stripe", "sandbox")}\n'
    assert f"opentill_foreign_gateway_events{wanted}" in metrics.render().decode()


@pytest.mark.parametrize("status", ["succeeded", "failed"])
@pytest.mark.parametrize("reporter", ["sandbox", "stripe"])
def test_a_refund_is_not_ended_under_the_name_of_another_payment(
    reports: Reports, reporter: str, status: str
) -> None:
    """A gateway names a payment of its own, and with it a refund that is not that payment's."""

    async def make(tx: Tx, owner: str) -> Subject:
        theirs = await refunding(tx, owner)
        product = await world.product(tx, theirs.order.merchant_id)
        session = await world.session(tx, theirs.order.merchant_id, product.id)
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
        found = _warnings(lines)
        assert found == ([(reporter, owner, subject.attempt.id)] if owner != reporter else [])


def test_of_a_crowd_of_reports_the_foreign_ones_alone_are_left_out(reports: Reports) -> None:
    """Payments confirmed together: each by its own gateway, by another one, and by both."""

    async def crowd(tx: Tx) -> list[Subject]:
        return [await waiting(tx, REPORTERS[n % 3]) for n in range(12)]

    subjects = reports.api_server.tx(crowd)
    gathering = callbacks.create_confirmations(reports.api_server.app)

    async def report() -> list[Any]:
        told = []
        for number, subject in enumerate(subjects):
            owner = subject.attempt.gateway
            other = REPORTERS[(number + 1) % 3]
            outcome = PaymentOutcome(status="SUCCEEDED")
            gateway_event = GatewayPaymentEvent(attempt_id=subject.attempt.id, outcome=outcome)
            who = {0: [other], 1: [owner], 2: [other, owner], 3: [owner, other]}[number % 4]
            told += [(name == owner, gathering.take_in(name, gateway_event)) for name in who]
        said = await asyncio.gather(*(work for _, work in told), return_exceptions=True)
        return [(own, result) for (own, _), result in zip(told, said, strict=True)]

    for own, result in reports.api_server.run(report()):
        assert (result is None) is own, result
    for number, subject in enumerate(subjects):
        status = "CREATING" if number % 4 == 0 else "PAID"
        assert reports.standing(subject)[0] == status


def test_a_settlement_report_is_about_its_own_gateway(reports: Reports) -> None:
    async def make(tx: Tx, gateway: str) -> list[str]:
        payment, refund = await paid(tx, gateway), await refunding(tx, gateway)
        back, loss = await duplicate(tx, gateway), await disputed(tx, gateway)
        await world.refund_said(tx, await _refund(tx, refund), "SUCCEEDED")
        attempt = await orders.find_attempt(tx, back.order.merchant_id, back.attempt.id)
        await orders.given_back(tx, attempt, world.RefundOutcome(status="SUCCEEDED"), world.NOW)
        ref = f"dispute of {loss.attempt.id}"
        await world.dispute_said(tx, loss.order, "LOST", ref=ref)
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
            found = [one.what for one in result.differences if one.line is not None]
            own = owner == reporter
            assert (result.matched, len(found)) == ((4, 0) if own else (0, 4))
            assert set(found) <= {"missing in ledger"}
            assert reports.rows() == before


async def _refund(tx: Tx, subject: Subject) -> Any:
    return await refunds.find(tx, subject.order.merchant_id, subject.refund_id)


def test_what_no_payment_is_named_for_is_answered_and_changes_nothing(reports: Reports) -> None:
    """A dispute of a payment that Stripe says is not ours, and news of attempts that never were."""
    reports.stripe.intents["pi_alien"] = {
        "id": "pi_alien", "object": "payment_intent", "status": "succeeded", "currency": "usd",
        "amount": 999, "amount_received": 999, "metadata": {}, "latest_charge": "ch_alien",
    }  # fmt: skip
    alien = reports.stripe.signed(
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
