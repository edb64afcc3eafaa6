"""A simulation of Stripe's Checkout on loopback, with injectable faults.

The emulator ``localstripe`` has no Checkout Sessions. This server has the parts of Stripe's API
that OpenTill uses, with payments, refunds and disputes. Fields, errors, idempotency keys and
signatures follow https://docs.stripe.com/api, and share no code with the adapter. A fault replaces
the response of a request, before or after its operation.
"""

import asyncio
import hashlib
import hmac
import json
import re
import time
from collections.abc import Awaitable, Callable
from itertools import count
from typing import Any, Final

from aiohttp import web

from support.ports import free_port
from support.stripe_balance import StripeBalance

KEY: Final = "sk_test_of_the_test_server"
SECRET: Final = "whsec_of_the_test_server"
# The smallest charge in Stripe's units: https://docs.stripe.com/currencies, "Minimum and maximum
# charge amounts".
MINIMUM: Final = {"usd": 50, "eur": 50, "gbp": 30, "jpy": 50, "hkd": 400, "sgd": 50}
# Fields of Stripe's API version 2026-10-28.endive, which no longer has payment_method_types.
SESSION_FIELDS: Final = {
    "adaptive_pricing",
    "allowed_payment_method_types",
    "cancel_url",
    "client_reference_id",
    "customer_email",
    "expires_at",
    "line_items",
    "locale",
    "metadata",
    "mode",
    "payment_intent_data",
    "payment_method_options",
    "success_url",
}


class Refused(Exception):
    """A response of 4xx in Stripe's format."""

    def __init__(
        self, status: int, code: str, message: str, kind: str = "invalid_request_error"
    ) -> None:
        """``kind``: the type of Stripe's error object."""
        super().__init__(message)
        self.status, self.code, self.message, self.kind = status, code, message, kind


def parse_form(pairs: Any) -> dict[str, Any]:
    """Turn ``a[b][0]=c`` into nested objects."""
    nested: dict[str, Any] = {}
    for name, value in pairs:
        keys = re.findall(r"[^\[\]]+", name)
        target = nested
        for key in keys[:-1]:
            target = target.setdefault(key, {})
        target[keys[-1]] = value
    return nested


class StripeServer:
    """The server, and the actions of customers, banks and Stripe's staff."""

    def __init__(self) -> None:
        """Create a server that does not listen yet; see ``start``."""
        self.url = ""
        self.sessions: dict[str, dict[str, Any]] = {}
        self.intents: dict[str, dict[str, Any]] = {}
        self.refunds: dict[str, dict[str, Any]] = {}
        self.balance = StripeBalance()
        self.calls: list[tuple[str, str, dict[str, str]]] = []
        self.clearing = "usd"
        self.refund_status = "succeeded"
        self.delay_s = 0.0  # seconds before each response
        # The server calls this function between two calls of the adapter.
        self.after_read: Callable[[], Any] = lambda: None
        self._faults: list[tuple[str, str]] = []
        self._stored_responses: dict[str, tuple[str, int, str]] = {}
        self._numbers = count(1)
        self._runner: web.AppRunner | None = None

    async def start(self) -> None:
        """Listen on a free port of loopback."""
        app = web.Application()
        routes: list[tuple[str, str, str, Any]] = [
            ("POST", "/v1/checkout/sessions", "open", self._open),
            ("GET", "/v1/checkout/sessions", "list", self._list_sessions),
            ("GET", "/v1/checkout/sessions/{id}", "find", self._find_session),
            ("POST", "/v1/checkout/sessions/{id}/expire", "expire", self._expire),
            ("GET", "/v1/payment_intents/{id}", "intent", self._intent),
            ("POST", "/v1/refunds", "refund", self._refund),
            ("GET", "/v1/refunds", "refunds", self._list_refunds),
            ("GET", "/v1/balance_transactions", "balance", self._list_movements),
        ]
        for verb, path, operation, handler in routes:
            app.router.add_route(verb, path, self._respond_with(operation, handler))
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", free_port())
        await site.start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"

    async def stop(self) -> None:
        """Stop listening."""
        if self._runner is not None:
            await self._runner.cleanup()

    def inject_faults(self, operation: str, *kinds: str) -> None:
        """Replace the next responses: ``500``, ``429``, ``409``, ``reset``, ``html``, ``hang``.

        With the suffix ``_after``, the operation is done before.
        """
        self._faults += [(operation, kind) for kind in kinds]

    def count(self, operation: str) -> int:
        """Return how often an operation was called."""
        return sum(name == operation for name, _, _ in self.calls)

    # ── what customers, their banks and Stripe's staff do ──

    def find_session(self, attempt_id: str) -> dict[str, Any]:
        """Return the only session of an attempt."""
        (session,) = [s for s in self.sessions.values() if s["client_reference_id"] == attempt_id]
        return session

    def open_other_sessions(self, number: int, first_s: int, last_s: int) -> None:
        """Open sessions of other shops, evenly between two times (Unix s)."""
        (session, *_) = self.sessions.values()
        for index in range(number):
            name = self._new_id("cs")
            created = first_s + index * (last_s - first_s) // number
            self.sessions[name] = session | {"id": name, "metadata": {}, "created": created}
        by_age = sorted(self.sessions.items(), key=lambda item: item[1]["created"])
        self.sessions = dict(by_age)

    def pay(self, attempt_id: str, status: str = "succeeded", amount: int | None = None) -> str:
        """Pay on Stripe's page, with the status ``succeeded`` or ``processing``; return the id."""
        session = self.find_session(attempt_id)
        assert session["status"] == "open"
        intent_id = self._new_id("pi")
        received = session["amount_total"] if amount is None else amount
        self.intents[intent_id] = {
            "id": intent_id,
            "object": "payment_intent",
            "status": status,
            "amount": session["amount_total"],
            "amount_received": received if status == "succeeded" else 0,
            "currency": session["currency"],
            "metadata": session["_of_payment"],
            "last_payment_error": None,
            "latest_charge": intent_id.replace("pi", "ch"),
        }
        session |= {
            "status": "complete",
            "payment_status": "paid" if status == "succeeded" else "unpaid",
            "payment_intent": intent_id,
            "url": None,
        }
        return intent_id

    def charge(self, intent_id: str) -> dict[str, Any]:
        """Return the charge of a payment by card."""
        intent = self.intents[intent_id]
        return {
            "id": intent["latest_charge"],
            "object": "charge",
            "status": "succeeded",
            "captured": True,
            "amount": intent["amount"],
            "amount_captured": intent["amount_received"],
            "currency": intent["currency"],
            "metadata": intent["metadata"],
            "payment_intent": intent_id,
            "balance_transaction": None,
            "payment_method_details": {
                "type": "card",
                "card": {"brand": "mastercard", "last4": "4444", "funding": "credit"},
            },
        }

    def end_processing(self, intent_id: str, *, paid: bool) -> None:
        """End a payment that is processing, as the customer's bank."""
        intent = self.intents[intent_id]
        (session,) = [s for s in self.sessions.values() if s["payment_intent"] == intent_id]
        if paid:
            intent |= {"status": "succeeded", "amount_received": intent["amount"]}
            session["payment_status"] = "paid"
        else:
            error = {"code": "payment_intent_payment_attempt_failed", "decline_code": None}
            intent |= {"status": "requires_payment_method", "last_payment_error": error}

    def dispute(self, intent_id: str, status: str, *amounts: int, **changes: Any) -> dict[str, Any]:
        """Return a dispute of a payment; ``amounts`` are those of its balance transactions."""
        intent = self.intents[intent_id]
        return {
            "id": intent_id.replace("pi", "du"),
            "object": "dispute",
            "status": status,
            "amount": intent["amount"],
            "currency": intent["currency"],
            "reason": "fraudulent",
            "payment_intent": intent_id,
            "charge": intent["latest_charge"],
            "metadata": {},
            "balance_transactions": [
                {"id": "txn_1", "amount": amount, "currency": "usd", "fee": 1500}
                for amount in amounts
            ],
        } | changes

    def refund_in_dashboard(self, intent_id: str, amount: int, **changes: Any) -> dict[str, Any]:
        """Refund a payment in Stripe's dashboard, so that the refund has no metadata."""
        name = self._new_id("re")
        self.refunds[name] = {
            "id": name,
            "object": "refund",
            "status": "succeeded",
            "amount": amount,
            "currency": self.intents[intent_id]["currency"],
            "metadata": {},
            "payment_intent": intent_id,
            "charge": self.intents[intent_id]["latest_charge"],
            "reason": "requested_by_customer",
        } | changes
        return self.refunds[name]

    def reverse_refund(self, refund_id: str) -> dict[str, Any]:
        """Send the money of a refund back to the shop, as the customer's bank."""
        self.refunds[refund_id] |= {"status": "failed", "failure_reason": "lost_or_stolen_card"}
        return self.refunds[refund_id]

    @staticmethod
    def sign_event(
        kind: str,
        resource: dict[str, Any],
        secret: str = SECRET,
        signed_at: float | None = None,
        account: str | None = None,
    ) -> tuple[dict[str, str], bytes]:
        """Return headers and body of an event (https://docs.stripe.com/webhooks)."""
        shown = {key: value for key, value in resource.items() if not key.startswith("_")}
        event = {
            "id": f"evt_{time.time_ns()}",
            "object": "event",
            "type": kind,
            "api_version": "2026-10-28.endive",
            "created": int(time.time()),
            "data": {"object": shown},
        } | ({"account": account} if account else {})
        body = json.dumps(event, indent=2).encode()
        timestamp = int(time.time() if signed_at is None else signed_at)
        mac = hmac.new(secret.encode(), b"%d." % timestamp + body, hashlib.sha256).hexdigest()
        return {"stripe-signature": f"t={timestamp},v1={mac},v0={'0' * 64}"}, body

    # ── operations of the API ──

    def _new_id(self, prefix: str) -> str:
        return f"{prefix}_test_{next(self._numbers)}"

    def _respond_with(
        self, operation: str, work: Callable[[web.Request, dict[str, Any]], dict[str, Any]]
    ) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def answer(request: web.Request) -> web.StreamResponse:
            self.calls.append((operation, request.path_qs, dict(request.headers)))
            await asyncio.sleep(self.delay_s)
            fault = self._take_fault(operation)
            if fault and not fault.endswith("_after"):
                return await self._respond_with_fault(request, fault)
            status, text = await self._run_operation(request, operation, work)
            if fault:
                return await self._respond_with_fault(request, fault.removesuffix("_after"))
            headers = {"Request-Id": "req_test", "Stripe-Notice": "a notice of Stripe's"}
            return web.Response(
                status=status, text=text, content_type="application/json", headers=headers
            )

        return answer

    def _take_fault(self, operation: str) -> str:
        for fault in self._faults:
            if fault[0] == operation:
                self._faults.remove(fault)
                return fault[1]
        return ""

    async def _respond_with_fault(self, request: web.Request, fault: str) -> web.StreamResponse:
        if fault == "hang":
            await asyncio.sleep(30)
        if fault in ("hang", "reset"):
            assert request.transport is not None
            request.transport.abort()
            return web.Response()
        if fault == "html":
            return web.Response(status=200, text="<html>a proxy</html>", content_type="text/html")
        if fault in ("list", "odd"):
            text = "[]" if fault == "list" else '{"object": 7, "data": 3}'
            return web.Response(status=200, text=text, content_type="application/json")
        kind = {"429": "rate_limit_error", "409": "idempotency_error"}.get(fault, "api_error")
        body = {"error": {"type": kind, "code": "fault", "message": "an injected fault"}}
        return web.json_response(body, status=int(fault))

    async def _run_operation(
        self, request: web.Request, operation: str, work: Any
    ) -> tuple[int, str]:
        pairs = list(
            (await request.post()).items() if request.method == "POST" else request.query.items()
        )
        key = request.headers.get("Idempotency-Key", "")
        fingerprint = f"{operation} {sorted(map(str, pairs))}"
        try:
            if request.headers.get("Authorization") != f"Bearer {KEY}":
                raise Refused(401, "", "Invalid API Key provided: sk_test_***")
            if request.method == "POST" and key in self._stored_responses:
                first_fingerprint, status, text = self._stored_responses[key]
                if first_fingerprint != fingerprint:
                    message = "Keys for idempotent requests can only be used with the same params"
                    raise Refused(400, "", message, "idempotency_error")
                return status, text
            stripe_object = work(request, parse_form(pairs))
        # Stripe does not store the response to a refused request under its idempotency key.
        except Refused as error:
            body = {"type": error.kind, "code": error.code, "message": error.message}
            return error.status, json.dumps({"error": body})
        shown = {name: value for name, value in stripe_object.items() if not name.startswith("_")}
        text = json.dumps(shown)
        self._stored_responses[key] = (fingerprint, 200, text)
        return 200, text

    def _open(self, _: web.Request, form: dict[str, Any]) -> dict[str, Any]:
        for field in form:
            if field not in SESSION_FIELDS:
                raise Refused(400, "parameter_unknown", f"Received unknown parameter: {field}")
        item = form["line_items"]["0"]
        price = item["price_data"]
        amount, currency = int(price["unit_amount"]), price["currency"]
        if amount < MINIMUM.get(currency, 1):
            message = "The Checkout Session's total amount must convert to at least 50 cents."
            raise Refused(400, "amount_too_small", message)
        now = time.time()
        assert item["quantity"] == "1"
        assert form["mode"] == "payment"
        if not now + 1800 <= int(form["expires_at"]) <= now + 86400:
            raise Refused(400, "", "The `expires_at` timestamp must be 30 minutes to 24 hours")
        kinds = list(form["allowed_payment_method_types"].values())
        if kinds == ["wechat_pay"]:
            assert form["payment_method_options"]["wechat_pay"]["client"] == "web"
        name = self._new_id("cs")
        self.sessions[name] = {
            "id": name,
            "object": "checkout.session",
            "status": "open",
            "payment_status": "unpaid",
            "amount_total": amount,
            "currency": currency,
            "client_reference_id": form["client_reference_id"],
            "metadata": form["metadata"],
            "url": f"https://checkout.stripe.com/c/pay/{name}",
            "payment_intent": None,
            "payment_method_types": kinds,
            "created": int(now),
            "expires_at": int(form["expires_at"]),
            "_of_payment": form["payment_intent_data"]["metadata"],
            "_form": form,
        }
        return self.sessions[name]

    def _find_session(self, request: web.Request, query: dict[str, Any]) -> dict[str, Any]:
        session = dict(self._requested_session(request, query))
        self.after_read()
        return session

    def _requested_session(self, request: web.Request, query: dict[str, Any]) -> dict[str, Any]:
        name = request.match_info["id"]
        if name not in self.sessions:
            raise Refused(404, "resource_missing", f"No such checkout.session: {name}")
        return self._expand(self.sessions[name], query)

    def _expand(self, resource: dict[str, Any], query: dict[str, Any]) -> dict[str, Any]:
        fields = list((query.get("expand") or {}).values())
        expanded = dict(resource)
        if resource["object"] == "checkout.session":
            if resource["payment_intent"] and any("payment_intent" in path for path in fields):
                intent = self.intents[resource["payment_intent"]]
                expanded["payment_intent"] = self._expand(intent, query)
        elif "latest_charge" in resource and any("balance_transaction" in path for path in fields):
            transaction = {"id": "txn_2", "amount": 1, "currency": self.clearing}
            expanded["latest_charge"] = self.charge(resource["id"]) | {
                "balance_transaction": transaction
            }
        return expanded

    def _list_sessions(self, _: web.Request, query: dict[str, Any]) -> dict[str, Any]:
        low, high = int(query["created"]["gte"]), int(query["created"]["lte"])
        sessions = [s for s in reversed(self.sessions.values()) if low <= s["created"] <= high]
        return self._page(sessions, query)

    def _page(self, items: list[dict[str, Any]], query: dict[str, Any]) -> dict[str, Any]:
        names = [resource["id"] for resource in items]
        after = query.get("starting_after")
        start = names.index(after) + 1 if after else 0
        end = start + int(query["limit"])
        assert int(query["limit"]) <= 100
        data = [
            {k: v for k, v in self._expand(resource, query).items() if not k.startswith("_")}
            for resource in items[start:end]
        ]
        return {"object": "list", "data": data, "has_more": end < len(items), "url": "/v1/list"}

    def _list_movements(self, _: web.Request, query: dict[str, Any]) -> dict[str, Any]:
        assert query["expand"] == {"0": "data.source"}
        low, high = int(query["created"]["gte"]), int(query["created"]["lte"])
        return self._page(self.balance.between(low, high), query)

    def _expire(self, request: web.Request, _: dict[str, Any]) -> dict[str, Any]:
        session = self.sessions[request.match_info["id"]]
        if session["status"] != "open":
            message = 'Only Checkout Sessions with a status in ["open"] can be expired.'
            raise Refused(400, "", message)
        session |= {"status": "expired", "url": None}
        return session

    def _intent(self, request: web.Request, query: dict[str, Any]) -> dict[str, Any]:
        name = request.match_info["id"]
        if name not in self.intents:
            raise Refused(404, "resource_missing", f"No such payment_intent: {name}")
        return self._expand(self.intents[name], query)

    def _refund(self, _: web.Request, form: dict[str, Any]) -> dict[str, Any]:
        intent = self.intents[form["payment_intent"]]
        amount = int(form["amount"])
        refunded = sum(
            refund["amount"]
            for refund in self.refunds.values()
            if refund["payment_intent"] == intent["id"] and refund["status"] != "failed"
        )
        if refunded + amount > intent["amount_received"]:
            raise Refused(400, "charge_already_refunded", "Charge has already been refunded.")
        name = self._new_id("re")
        self.refunds[name] = {
            "id": name,
            "object": "refund",
            "status": self.refund_status,
            "amount": amount,
            "currency": intent["currency"],
            "metadata": form["metadata"],
            "payment_intent": intent["id"],
        }
        return self.refunds[name]

    def _list_refunds(self, _: web.Request, query: dict[str, Any]) -> dict[str, Any]:
        name = query["payment_intent"]
        if name not in self.intents:
            raise Refused(404, "resource_missing", f"No such payment_intent: {name}")
        return self._page(
            [r for r in reversed(self.refunds.values()) if r["payment_intent"] == name], query
        )

    def forget_keys(self) -> None:
        """Forget idempotency keys, as Stripe does after a day."""
        self._stored_responses.clear()
