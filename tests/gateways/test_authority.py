"""A gateway's reports count for its own payments only.

Each gateway reports on payments of every gateway by genuine callbacks. A report on a payment of its
own counts. A report on a payment of another gateway changes nothing, gets the same response, and is
logged.
"""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final

import httpx2
import msgspec
import pytest
import structlog

from gateways.several_gateways import EPUSDT_TOKEN, NAMES, GatewayDeployment
from opentill import callbacks, orders, refunds
from opentill.core import metrics
from opentill.core.ids import new_id
from opentill.db.database import Tx
from opentill.gateways import GatewayPaymentEvent, Method, PaymentOutcome
from opentill.gateways.registry import BUILT_IN
from opentill.orders import Order, PaymentAttempt
from opentill.reconciliation.service import reconcile
from opentill.sandbox import alipay, epay_v2, paypal, wechat_pay
from opentill.sandbox.callbacks import sign
from opentill.sandbox.epusdt import keys as epusdt_keys
from support import epay_gateway_server, world
from support.api_server import SECRETS

REPORTERS: Final = (
    "sandbox", "stripe", "epay", "epay_v2", "alipay", "wechat_pay", "paypal", "epusdt",
)  # fmt: skip
OWNERS: Final = NAMES
METHOD: Final[Method] = "ALIPAY"


def test_every_built_in_gateway_is_covered() -> None:
    assert set(OWNERS) == set(BUILT_IN)


class Subject(msgspec.Struct, frozen=True):
    """A payment attempt on which a gateway reports. ``refund_id`` is "" if it has no refund."""

    order: Order
    attempt: PaymentAttempt
    refund_id: str = ""


# ── the payments and refunds that gateways report about ──


async def create_payment_in_progress(tx: Tx, gateway: str, order: Order | None = None) -> Subject:
    """Create a payment in progress."""
    order = order or await world.create_order(tx)
    return Subject(order, await world.submit_attempt(tx, order, gateway=gateway))


async def create_paid_payment(tx: Tx, gateway: str) -> Subject:
    """Create a confirmed payment."""
    subject = await create_payment_in_progress(tx, gateway)
    await world.report_payment(tx, subject.attempt, "SUCCEEDED", provider_ref=f"at_{gateway}")
    return subject


async def create_refund_in_progress(tx: Tx, gateway: str) -> Subject:
    """Create a refund in progress."""
    subject = await create_paid_payment(tx, gateway)
    order = await orders.find(tx, subject.order.merchant_id, subject.order.id)
    refund = await world.create_refund(tx, order)
    return msgspec.structs.replace(subject, refund_id=refund.id)


async def create_duplicate(tx: Tx, gateway: str) -> Subject:
    """Create a duplicate payment, whose refund has the attempt's id."""
    subject = await create_payment_in_progress(tx, gateway)
    await world.report_payment(tx, subject.attempt, "DECLINED")
    order = await orders.find(tx, subject.order.merchant_id, subject.order.id)
    await world.pay_order(tx, order)
    attempt = await world.report_payment(tx, subject.attempt, "SUCCEEDED")
    assert attempt.status == "DUPLICATE"
    return msgspec.structs.replace(subject, refund_id=attempt.id)


async def create_disputed_payment(tx: Tx, gateway: str) -> Subject:
    """Create a disputed payment."""
    subject = await create_paid_payment(tx, gateway)
    await world.report_dispute(tx, subject.order, "OPENED", ref=f"dispute-of-{subject.attempt.id}")
    return subject


# ── what gateways report ──

Report = tuple[str, Any]  # the reported object (payment, refund or dispute), and its status


def create_epay_notification(epay: epay_gateway_server.EpayServer, number: str) -> dict[str, str]:
    """Create a paid order at the Epay server; return its notification."""
    epay.orders[number] = {
        "trade_no": f"T{len(epay.orders)}", "out_trade_no": number, "type": "alipay",
        "pid": int(epay_gateway_server.PID), "name": "A mug", "money": "9.99", "status": 0,
    }  # fmt: skip
    return epay.pay(number)


def create_epay_v2_notification(account: epay_v2.Account, number: str) -> dict[str, str]:
    """Return an Epay V2 server's notification of a paid order."""
    values = {
        "pid": epay_v2.PID, "trade_no": "T1", "out_trade_no": number, "type": "alipay",
        "name": "A mug", "money": "9.99", "trade_status": "TRADE_SUCCESS",
        "timestamp": str(int(time.time())),
    }  # fmt: skip
    return {**values, "sign": account.sign(values), "sign_type": "RSA"}


def create_alipay_notification(app: alipay.App, number: str) -> dict[str, str]:
    """Return Alipay's notification that a trade was closed unpaid."""
    form = {"app_id": alipay.APP_ID, "out_trade_no": number, "trade_status": "TRADE_CLOSED"}
    content = "&".join(f"{name}={value}" for name, value in sorted(form.items()))
    return {**form, "sign_type": "RSA2", "sign": app.sign(content.encode())}


_TRADE_STATES: Final = {"declined": "CLOSED", "voided": "REVOKED"}
_REFUND_STATES: Final = {"succeeded": "SUCCESS", "failed": "CLOSED"}


def create_wechat_pay_notification(
    merchant: wechat_pay.Merchant, subject: Subject, kind: str, status: str
) -> tuple[dict[str, str], bytes]:
    """Return headers and body of WeChat Pay's notification of a payment or refund."""
    resource = {
        "mchid": wechat_pay.MCHID,
        "appid": wechat_pay.APPID,
        "out_trade_no": subject.attempt.id,
        "out_refund_no": subject.refund_id,
        "trade_state": _TRADE_STATES.get(status, ""),
        "refund_status": _REFUND_STATES.get(status, ""),
    }
    encrypted = merchant.encrypt(json.dumps(resource).encode(), kind)
    event_type = "REFUND.SUCCESS" if kind == "refund" else "TRANSACTION.SUCCESS"
    body = json.dumps({"event_type": event_type, "resource": encrypted}).encode()
    now_s = int(time.time())
    headers = {
        "wechatpay-timestamp": str(now_s),
        "wechatpay-nonce": "n",
        "wechatpay-signature": merchant.own.sign(now_s, "n", body),
        "wechatpay-serial": wechat_pay.PUBLIC_KEY_ID,
    }
    return headers, body


_PAYPAL_EVENTS: Final = {
    ("payment", "succeeded"): ("PAYMENT.CAPTURE.COMPLETED", "COMPLETED"),
    ("payment", "declined"): ("PAYMENT.CAPTURE.DENIED", "DECLINED"),
    ("payment", "voided"): ("CHECKOUT.ORDER.COMPLETED", "VOIDED"),
    ("refund", "succeeded"): ("PAYMENT.CAPTURE.REFUNDED", "COMPLETED"),
    ("refund", "failed"): ("PAYMENT.REFUND.FAILED", "FAILED"),
    ("dispute", "opened"): ("CUSTOMER.DISPUTE.CREATED", "OPEN"),
    ("dispute", "won"): ("CUSTOMER.DISPUTE.RESOLVED", "RESOLVED_SELLER_FAVOUR"),
    ("dispute", "lost"): ("CUSTOMER.DISPUTE.RESOLVED", "RESOLVED_BUYER_FAVOUR"),
}


def create_paypal_webhook(
    account: paypal.Account, url: str, subject: Subject, report: Report
) -> tuple[dict[str, str], bytes]:
    """Return headers and body of PayPal's webhook; ``url`` is that of PayPal's API."""
    event_type, status = _PAYPAL_EVENTS[report]
    attempt, (kind, _) = subject.attempt, report
    amount = {
        "currency_code": attempt.currency,
        "value": f"{attempt.amount_minor // 100}.{attempt.amount_minor % 100:02}",
    }
    resource: dict[str, Any] = {"id": "P1", "status": status, "amount": amount}
    if kind == "payment":
        resource |= {"custom_id": attempt.id, "purchase_units": [{"custom_id": attempt.id}]}
    elif kind == "refund":
        resource |= {"custom_id": f"{subject.refund_id}.{attempt.id}"}
    else:
        resource = {
            "dispute_id": f"dispute-of-{attempt.id}",
            "status": "RESOLVED" if status.startswith("RESOLVED") else status,
            "dispute_outcome": {"outcome_code": status},
            "dispute_amount": amount,
            "disputed_transactions": [{"custom": attempt.id}],
        }
    body = json.dumps({"event_type": event_type, "resource": resource}).encode()
    sent_at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    headers = {
        "paypal-transmission-id": "t",
        "paypal-transmission-time": sent_at,
        "paypal-transmission-sig": account.current.sign("t", sent_at, paypal.WEBHOOK_ID, body),
        "paypal-auth-algo": "SHA256withRSA",
        "paypal-cert-url": f"{url}/v1/notifications/certs/{account.current.name}",
    }
    return headers, body


def create_epusdt_callback(attempt: PaymentAttempt, status: int) -> bytes:
    """Return the body of an epusdt server's callback; its amount is a number."""
    values = {
        "trade_id": "T1", "order_id": attempt.id, "amount": attempt.amount_minor / 100,
        "actual_amount": 1.5, "token": "TWallet", "block_transaction_id": "ab", "status": status,
    }  # fmt: skip
    signature = epusdt_keys.sign(values, EPUSDT_TOKEN)
    return json.dumps({**values, "signature": signature}).encode()


class Reporter:
    """Sends reports of gateways to a server, and reads their effects."""

    def __init__(self, deployment: GatewayDeployment) -> None:
        """Report to the deployment's server."""
        self.api_server, self.stripe, self.epay = (
            deployment.api_server,
            deployment.stripe,
            deployment.epay,
        )
        self.alipay_app, self.merchant = deployment.alipay_app, deployment.merchant
        self.deployment = deployment

    def send_report(self, gateway: str, subject: Subject, report: Report) -> httpx2.Response | None:
        """Send a report as a gateway; return None if the gateway has no such report."""
        path = f"/gateways/{gateway}/callback"
        if gateway in ("epay", "epay_v2"):
            if report != ("payment", "succeeded"):
                return None
            notice = (
                create_epay_notification(self.epay, subject.attempt.id)
                if gateway == "epay"
                else create_epay_v2_notification(self.deployment.epay_account, subject.attempt.id)
            )
            return self.api_server.http.get(path, params=notice)
        if gateway == "alipay":  # it takes only yuan, so it cannot report these orders as paid
            if report != ("payment", "declined"):
                return None
            form = create_alipay_notification(self.alipay_app, subject.attempt.id)
            return self.api_server.http.post(path, data=form)
        build = {
            "sandbox": self._build_sandbox,
            "stripe": self._build_stripe,
            "wechat_pay": self._build_wechat_pay,
            "paypal": self._build_paypal,
            "epusdt": self._build_epusdt,
        }[gateway]
        built = build(subject, *report)
        if built is None:
            return None
        headers, body = built
        return self.api_server.http.post(path, content=body, headers=headers)

    def _build_epusdt(
        self, subject: Subject, kind: str, status: str
    ) -> tuple[dict[str, str], bytes] | None:
        """Return headers and body of a callback; such a server reports payments only."""
        number = {("payment", "succeeded"): 2, ("payment", "declined"): 3}.get((kind, status))
        return None if number is None else ({}, create_epusdt_callback(subject.attempt, number))

    def _build_paypal(
        self, subject: Subject, kind: str, status: str
    ) -> tuple[dict[str, str], bytes]:
        """Return headers and body of a webhook of PayPal."""
        account, url = self.deployment.paypal_account, self.deployment.paypal_url
        return create_paypal_webhook(account, url, subject, (kind, status))

    def _build_wechat_pay(
        self, subject: Subject, kind: str, status: str
    ) -> tuple[dict[str, str], bytes] | None:
        """Return headers and body of a notification; it takes only yuan and has no disputes."""
        if kind == "dispute" or (kind, status) == ("payment", "succeeded"):
            return None
        return create_wechat_pay_notification(self.merchant, subject, kind, status)

    def _build_sandbox(
        self, subject: Subject, kind: str, status: str
    ) -> tuple[dict[str, str], bytes]:
        """Return headers and body of a callback of the sandbox bank."""
        attempt = subject.attempt
        money = {"amount_minor": attempt.amount_minor, "currency": attempt.currency}
        data: dict[str, Any] = {"status": status, **money}
        match kind:
            case "payment":
                data |= {"id": attempt.id, "method": METHOD, "action_url": "", "qr_text": None}
                data |= {"decline_code": None}
            case "refund":
                data |= {"id": subject.refund_id, "payment_id": attempt.id, "error": None}
            case _:
                data |= {"id": f"dispute-of-{attempt.id}", "payment_id": attempt.id}
                data |= {"reason": "fraudulent"}
        event = {"type": f"{kind}.{status}", "data": {kind: data}}
        body = json.dumps(event).encode()
        signature = sign(SECRETS["sandbox_secret"], body, int(time.time()))
        return {"sandbox-signature": signature}, body

    def _build_stripe(
        self, subject: Subject, kind: str, status: str
    ) -> tuple[dict[str, str], bytes]:
        """Return headers and body of an event of Stripe."""
        attempt = subject.attempt
        metadata = {"attempt_id": attempt.id}
        match kind, status:
            case "payment", "succeeded":
                return self.stripe.sign_event("payment_intent.succeeded", self._intent(attempt))
            case "payment", _:
                session = {"id": "cs_1", "status": "expired", "payment_status": "unpaid"}
                return self.stripe.sign_event(
                    "checkout.session.expired", session | {"metadata": metadata}
                )
            case "refund", _:
                metadata |= {"refund_id": subject.refund_id}
                refund = {"id": "re_1", "status": status, "metadata": metadata}
                refund |= {"amount": attempt.amount_minor, "currency": attempt.currency.lower()}
                return self.stripe.sign_event("refund.updated", refund)
            case _:
                # Stripe's disputes have no metadata: the payment intent leads to the attempt.
                ref = self._intent(attempt)["id"]
                stripe_status = {"opened": "needs_response"}.get(status, status)
                dispute = self.stripe.dispute(ref, stripe_status, id=f"dispute-of-{attempt.id}")
                return self.stripe.sign_event("charge.dispute.updated", dispute)

    def _intent(self, attempt: PaymentAttempt) -> dict[str, Any]:
        intent_id = f"pi_{attempt.id}"
        self.stripe.intents[intent_id] = {
            "id": intent_id, "object": "payment_intent", "status": "succeeded", "currency": "usd",
            "amount": attempt.amount_minor, "amount_received": attempt.amount_minor,
            "metadata": {"attempt_id": attempt.id}, "latest_charge": intent_id.replace("pi", "ch"),
        }  # fmt: skip
        return self.stripe.intents[intent_id]

    def create_subject(
        self, create: Callable[[Tx, str], Awaitable[Subject]], gateway: str
    ) -> Subject:
        """Create the subject of a report."""
        return self.api_server.tx(lambda tx: create(tx, gateway))

    def dump_rows(self) -> dict[str, list[str]]:
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
def reporter(deployment: GatewayDeployment) -> Reporter:
    """A sender of reports to the server of this module."""
    return Reporter(deployment)


# ── each gateway reports on the payments of all gateways ──

_PAID = "SUCCEEDED"
EVENTS: Final = (
    # Each row: function that creates the subject, report, then the statuses of order, attempt and
    # refund if the report counts
    (create_payment_in_progress, ("payment", "succeeded"), ("PAID", _PAID, "")),
    (create_payment_in_progress, ("payment", "declined"), ("PENDING", "DECLINED", "")),
    (create_payment_in_progress, ("payment", "voided"), ("REVOKED", "VOIDED", "")),
    (create_refund_in_progress, ("refund", "succeeded"), ("REFUNDED", _PAID, "SUCCEEDED")),
    (create_refund_in_progress, ("refund", "failed"), ("PAID", _PAID, "FAILED")),
    (create_duplicate, ("refund", "succeeded"), ("PAID", "GIVEN_BACK", "")),
    (create_duplicate, ("refund", "failed"), ("PAID", "DUPLICATE", "")),
    (create_paid_payment, ("dispute", "opened"), ("DISPUTED", _PAID, "")),
    # The dispute is only stored, until the payment succeeds.
    (
        create_payment_in_progress,
        ("dispute", "opened"),
        ("CREATING", "SUBMITTED", ""),
    ),
    (create_disputed_payment, ("dispute", "won"), ("PAID", _PAID, "")),
    (create_disputed_payment, ("dispute", "lost"), ("CHARGEBACK", _PAID, "")),
)


@pytest.mark.parametrize("gateway", REPORTERS)
@pytest.mark.parametrize(
    ("create", "report", "expected"),
    [pytest.param(*row, id=f"{row[0].__name__}-{'-'.join(row[1])}") for row in EVENTS],
)
def test_only_the_gateway_of_a_payment_may_report_on_it(
    reporter: Reporter, gateway: str, create: Any, report: Report, expected: tuple[str, str, str]
) -> None:
    content_for_owner = None
    for owner in sorted(OWNERS, key=lambda name: name != gateway):
        subject = reporter.create_subject(create, owner)
        before, count = reporter.dump_rows(), _read_counter(gateway, owner)
        with structlog.testing.capture_logs() as lines:
            response = reporter.send_report(gateway, subject, report)
        if response is None:
            return
        assert response.status_code == 200
        if owner == gateway:
            content_for_owner = response.content
            if (gateway, report[1]) == ("stripe", "voided"):
                continue  # Stripe reports a voided session in the same way as a declined one
            assert reporter.dump_rows() != before
            assert reporter.statuses(subject) == expected
            continue
        assert response.content == content_for_owner  # the gateway cannot see that it was ignored
        assert reporter.dump_rows() == before
        assert _warnings(lines) == [(gateway, owner, subject.attempt.id)]
        assert _read_counter(gateway, owner) == count + 1


@pytest.mark.parametrize(
    ("gateway", "content"),
    [("epusdt", b"ok"), ("epay", b"success"), ("epay_v2", b"success"), ("stripe", b'{"code":0')],
)
def test_each_provider_gets_the_response_that_it_expects(
    reporter: Reporter, gateway: str, content: bytes
) -> None:
    subject = reporter.create_subject(create_payment_in_progress, gateway)
    response = reporter.send_report(gateway, subject, ("payment", "succeeded"))
    assert response is not None
    assert response.content.startswith(content)
    assert reporter.statuses(subject) == ("PAID", "SUCCEEDED", "")


def _warnings(lines: Any) -> list[tuple[str, str, str]]:
    return [
        (line["gateway"], line["owner"], line["attempt"])
        for line in lines
        if line["event"] == "gateway event about another gateway's payment"
        and line["log_level"] == "warning"
    ]


def _read_counter(gateway: str, owner: str) -> float:
    """Return the number of ignored reports. Rendering all metrics would take long."""
    labels = {"gateway": gateway, "owner": owner}
    (family,) = metrics._counter(metrics._FOREIGN_EVENTS).collect()
    return sum(
        sample.value
        for sample in family.samples
        if sample.labels == labels and "total" in sample.name
    )


def test_ignored_reports_are_counted_in_the_metrics() -> None:
    metrics.count_foreign_gateway_event("stripe", "sandbox")
    expected = f'_total{{gateway="stripe",owner="sandbox"}} {_read_counter("stripe", "sandbox")}\n'
    assert f"opentill_foreign_gateway_events{expected}" in metrics.render().decode()


@pytest.mark.parametrize("status", ["succeeded", "failed"])
@pytest.mark.parametrize("gateway", ["sandbox", "stripe", "wechat_pay", "paypal"])
def test_a_refund_cannot_be_ended_by_a_report_on_another_payment(
    reporter: Reporter, gateway: str, status: str
) -> None:
    """A gateway reports on a payment of its own with the refund of another payment."""

    async def create(tx: Tx, owner: str) -> Subject:
        refund = await create_refund_in_progress(tx, owner)
        product = await world.create_product(tx, refund.order.merchant_id)
        session = await world.create_session(tx, refund.order.merchant_id, product.id)
        order = await orders.find(tx, refund.order.merchant_id, session.order_id)
        own_payment = await create_payment_in_progress(tx, gateway, order)
        return msgspec.structs.replace(own_payment, refund_id=refund.refund_id)

    for owner in OWNERS:
        subject = reporter.create_subject(create, owner)
        before = reporter.dump_rows()
        with structlog.testing.capture_logs() as lines:
            response = reporter.send_report(gateway, subject, ("refund", status))
        assert response is not None
        assert response.status_code == 200
        assert reporter.dump_rows() == before
        warnings = _warnings(lines)
        assert warnings == ([(gateway, owner, subject.attempt.id)] if owner != gateway else [])


def test_a_batch_ignores_only_reports_on_payments_of_other_gateways(reporter: Reporter) -> None:
    """In one batch, payments are reported by their own gateway, by another one, or by both."""

    async def create_payments(tx: Tx) -> list[Subject]:
        return [await create_payment_in_progress(tx, REPORTERS[number % 3]) for number in range(12)]

    subjects = reporter.api_server.tx(create_payments)
    confirmations = callbacks.Confirmations(reporter.api_server.app)

    async def confirm_all() -> list[Any]:
        calls: list[tuple[bool, Coroutine[Any, Any, None]]] = []
        for number, subject in enumerate(subjects):
            owner = subject.attempt.gateway
            other_gateway = REPORTERS[(number + 1) % 3]
            outcome = PaymentOutcome(status="SUCCEEDED")
            gateway_event = GatewayPaymentEvent(attempt_id=subject.attempt.id, outcome=outcome)
            reporting = (
                [other_gateway],
                [owner],
                [other_gateway, owner],
                [owner, other_gateway],
            )[number % 4]
            calls += [
                (name == owner, confirmations.confirm(name, gateway_event)) for name in reporting
            ]
        results = await asyncio.gather(*(work for _, work in calls), return_exceptions=True)
        return [(is_owner, result) for (is_owner, _), result in zip(calls, results, strict=True)]

    for is_owner, result in reporter.api_server.run(confirm_all()):
        assert (result is None) is is_owner, result
    for number, subject in enumerate(subjects):
        status = "CREATING" if number % 4 == 0 else "PAID"
        assert reporter.statuses(subject)[0] == status


def test_a_settlement_report_matches_payments_of_its_own_gateway_only(reporter: Reporter) -> None:
    async def create_report(tx: Tx, gateway: str) -> list[str]:
        """Create a payment, two refunds and a chargeback; return their rows of a report."""
        payment, refund = (
            await create_paid_payment(tx, gateway),
            await create_refund_in_progress(tx, gateway),
        )
        duplicate, chargeback = (
            await create_duplicate(tx, gateway),
            await create_disputed_payment(tx, gateway),
        )
        await world.report_refund(tx, await _refund(tx, refund), "SUCCEEDED")
        attempt = await orders.find_attempt(tx, duplicate.order.merchant_id, duplicate.attempt.id)
        await orders.apply_duplicate_return(
            tx, attempt, world.RefundOutcome(status="SUCCEEDED"), world.NOW
        )
        ref = f"dispute-of-{chargeback.attempt.id}"
        await world.report_dispute(tx, chargeback.order, "LOST", ref=ref)
        return [
            f"payment,{payment.attempt.id},9.99,USD,{world.NOW}",
            f"refund,{refund.refund_id},9.99,USD,{world.NOW}",
            f"refund,{duplicate.refund_id},9.99,USD,{world.NOW}",
            f"chargeback,{ref},9.99,USD,{world.NOW}",
        ]

    header = "kind,reference,amount,currency,settled_at"
    for owner in OWNERS:
        rows = reporter.api_server.tx(lambda tx, owner=owner: create_report(tx, owner))
        for gateway in OWNERS:
            before = reporter.dump_rows()
            lines = [f"{line}\n" for line in (header, *rows)]
            result = reporter.api_server.run(reconcile(reporter.api_server.app.db, gateway, lines))
            differences = [row.what for row in result.differences if row.line is not None]
            expected = (4, 0) if gateway == owner else (0, 4)
            assert (result.matched, len(differences)) == expected
            assert set(differences) <= {"missing in ledger"}
            assert reporter.dump_rows() == before


async def _refund(tx: Tx, subject: Subject) -> Any:
    return await refunds.find(tx, subject.order.merchant_id, subject.refund_id)


def test_reports_on_unknown_payments_are_acknowledged_without_effect(reporter: Reporter) -> None:
    """A dispute of another system's payment, and reports on attempts that do not exist."""
    reporter.stripe.intents["pi_unknown"] = {
        "id": "pi_unknown", "object": "payment_intent", "status": "succeeded", "currency": "usd",
        "amount": 999, "amount_received": 999, "metadata": {}, "latest_charge": "ch_unknown",
    }  # fmt: skip
    headers, body = reporter.stripe.sign_event(
        "charge.dispute.created", reporter.stripe.dispute("pi_unknown", "needs_response")
    )
    subject = reporter.create_subject(create_payment_in_progress, "sandbox")
    unknown_attempt = msgspec.structs.replace(subject.attempt, id=new_id("att"))
    before = reporter.dump_rows()
    path = "/gateways/stripe/callback"
    assert reporter.api_server.http.post(path, content=body, headers=headers).status_code == 200
    for report in (("payment", "succeeded"), ("dispute", "opened")):
        unknown_subject = Subject(subject.order, unknown_attempt)
        response = reporter.send_report("sandbox", unknown_subject, report)
        assert response is not None
        assert response.status_code == 200
    assert reporter.dump_rows() == before
