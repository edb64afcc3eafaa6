"""Callbacks: signed reports, delivered until the receiver acknowledges them.

A callback is written in the same transaction as the change that it reports, so that neither exists
without the other. Each receiver has its own sender, which sends one callback at a time while the
receiver does not respond, so that an unreachable receiver does not delay the others.
"""

import asyncio
import hmac
import logging
import secrets
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Final, Literal
from urllib.parse import urlsplit

import httpx2
import msgspec

from opentill.sandbox import faults
from opentill.sandbox.dialects import Dialect, Dialects
from opentill.sandbox.model import (
    DIALECT_FAULTS,
    CallbackType,
    Dispute,
    PaymentView,
    Refund,
    Timing,
)
from opentill.sandbox.storage import Store, Tx
from opentill.sandbox.timers import now_ms

RECEIVER: Final = "receiver:"  # begins the names of the topics that announce a due callback
SIGNATURE_HEADER: Final = "Sandbox-Signature"
# A receiver that responds gets this many callbacks at a time, any other receiver only one.
_MAX_CONCURRENT: Final = 32
MAX_WAIT_S: Final = 60.0

_log: Final = logging.getLogger(__name__)


class Callback(msgspec.Struct, frozen=True, kw_only=True):
    """A row of ``callbacks``.

    ``copies`` is how many more times a fault makes the bank deliver it.
    """

    id: str
    receiver: str
    url: str
    payment_id: str
    body: bytes
    status: Literal["pending", "delivered", "dropped", "given_up"]
    attempts: int
    copies: int
    held: bool
    next_at: int
    created_at: int
    dialect: str = ""  # whose form the body has, "" for the bank's own


DISPUTE_RESPONSE_MS: Final = 14 * 24 * 3_600_000  # the shop must respond to a dispute in this time


def queue(
    tx: Tx,
    url: str,
    kind: CallbackType,
    now: int,
    payment: PaymentView,
    about: Refund | Dispute | None = None,
    dialect: Dialect | None = None,
) -> None:
    """Queue a report, which is delivered to ``url`` after the commit.

    ``about`` is the refund or dispute of the payment that it reports. ``dialect`` is that of the
    payment; reports that its provider does not have are left out.
    """
    data: dict[str, Any] = {"payment": payment}
    subjects = [payment.id]
    if about is not None:
        data["refund" if isinstance(about, Refund) else "dispute"] = about
        subjects.append(about.id)
    fault = faults.take(tx, "callback", *subjects, dialect=dialect is not None)
    fault_kind = None if fault is None else fault.kind
    is_delayed = fault_kind in {"slow", "out_of_order"}
    delay_ms = round(fault.delay_s * 1000) if fault is not None and is_delayed else 0
    callback_id = f"cb_{now:012x}{secrets.token_hex(8)}"
    if isinstance(about, Dispute):
        data["dispute"] = msgspec.structs.asdict(about) | {
            "respond_by": about.created_at + DISPUTE_RESPONSE_MS
        }
    body: bytes | None = msgspec.json.encode(
        {"id": callback_id, "type": kind, "created_at": now, "data": data}
    )
    if dialect is not None:
        spoiled = fault_kind if fault_kind in DIALECT_FAULTS else None
        body = dialect.compose(tx, kind, now, payment, about, spoiled)
    if body is None:
        return
    row = Callback(
        id=callback_id,
        receiver="{0.scheme}://{0.netloc}".format(urlsplit(url)),
        url=url,
        payment_id=payment.id,
        body=body,
        status="dropped" if fault_kind == "drop" else "pending",
        attempts=0,
        copies=1 if fault_kind == "duplicate" else 0,
        held=fault_kind == "out_of_order",
        next_at=now + delay_ms,
        created_at=now,
        dialect="" if dialect is None else dialect.name,
    )
    tx.insert("callbacks", msgspec.structs.asdict(row))
    tx.announce(RECEIVER + row.receiver)


def sign(secret: str, body: bytes, timestamp: int) -> str:
    """Return the signature header's value for a body sent at ``timestamp`` (Unix seconds)."""
    signed = str(timestamp).encode() + b"." + body
    return f"t={timestamp},v1={hmac.digest(secret.encode(), signed, 'sha256').hex()}"


class Dispatcher:
    """Delivers callbacks, with one sender for each receiver with pending callbacks."""

    def __init__(self, store: Store, secret: str, timing: Timing, dialects: Dialects) -> None:
        """``secret`` signs the callbacks that are in no dialect."""
        self._dialects = dialects
        self._store = store
        self._secret = secret
        self._timing = timing
        self._senders: dict[str, _Sender] = {}
        self._tasks: asyncio.TaskGroup | None = None

    def notify(self, receiver: str) -> None:
        """Check again what is due for the receiver."""
        sender = self._senders.get(receiver)
        if sender is not None:
            sender.notified.set()
        elif self._tasks is not None:
            self._senders[receiver] = sender = _Sender(receiver)
            self._tasks.create_task(self._run_sender(sender))

    async def run(self) -> None:
        """Deliver forever, first the callbacks that were pending when the bank stopped."""
        limits = httpx2.Limits(max_connections=512, max_keepalive_connections=64)
        async with (
            httpx2.AsyncClient(
                timeout=self._timing.callback_timeout_s,
                limits=limits,
                trust_env=False,
                follow_redirects=False,
            ) as self._client,
            asyncio.TaskGroup() as self._tasks,
        ):
            for receiver in await self._store.do(_list_receivers):
                self.notify(receiver)
            await asyncio.Event().wait()

    async def _run_sender(self, sender: "_Sender") -> None:
        async with asyncio.TaskGroup() as deliveries:
            while True:
                sender.notified.clear()
                max_concurrent = _MAX_CONCURRENT if sender.healthy else 1
                due, later_at = await self._store.do(
                    partial(_list_due, receiver=sender.receiver, limit=max_concurrent)
                )
                unsent_callbacks = [callback for callback in due if callback.id not in sender.busy]
                for callback in unsent_callbacks[: max(max_concurrent - len(sender.busy), 0)]:
                    sender.busy.add(callback.id)
                    deliveries.create_task(self._deliver(sender, callback))
                if (
                    not due
                    and later_at is None
                    and not sender.busy
                    and not sender.notified.is_set()
                ):
                    del self._senders[sender.receiver]
                    return
                # Callbacks that are due but exceed the limit wait until a delivery ends, which
                # notifies this sender.
                wait_s = MAX_WAIT_S
                if later_at is not None:
                    wait_s = min(max(later_at / 1000 - time.time(), 0.001), MAX_WAIT_S)
                with suppress(TimeoutError):
                    async with asyncio.timeout(wait_s):
                        await sender.notified.wait()

    async def _deliver(self, sender: "_Sender", callback: Callback) -> None:
        arrived = await self._send(callback)
        recovered = arrived and not sender.healthy
        now = now_ms()
        if arrived:
            await self._store.do(lambda tx: _mark_arrived(tx, callback, now, recovered=recovered))
        else:
            await self._store.do(lambda tx: _mark_failed(tx, callback, now, self._timing))
        sender.healthy = arrived
        sender.busy.discard(callback.id)
        sender.notified.set()

    async def _send(self, callback: Callback) -> bool:
        dialect = self._dialects.get(callback.dialect)
        headers, content = self._sign(callback, dialect)
        try:
            async with asyncio.timeout(self._timing.callback_timeout_s):
                if dialect is not None and dialect.callback_method == "GET":
                    separator = "&" if "?" in callback.url else "?"
                    url = f"{callback.url}{separator}{content.decode()}"
                    response = await self._client.get(url, headers=headers)
                else:
                    response = await self._client.post(
                        callback.url, content=content, headers=headers
                    )
        except (httpx2.HTTPError, httpx2.InvalidURL, TimeoutError) as error:
            _log.info("callback %s did not arrive: %s", callback.id, type(error).__name__)
            return False
        arrived = response.is_success
        if dialect is not None:
            arrived = dialect.is_acknowledged(response.status_code, response.content)
        if not arrived:
            _log.info("callback %s got the response %d", callback.id, response.status_code)
        return arrived

    def _sign(self, callback: Callback, dialect: Dialect | None) -> tuple[Mapping[str, str], bytes]:
        if dialect is not None:
            return dialect.sign(callback.body, now_ms())
        headers = {
            "Content-Type": "application/json",
            SIGNATURE_HEADER: sign(self._secret, callback.body, int(time.time())),
        }
        return headers, callback.body


class _Sender:
    """The state of the deliveries to one receiver."""

    def __init__(self, receiver: str) -> None:
        self.receiver = receiver
        self.notified = asyncio.Event()
        self.busy: set[str] = set()  # ids of callbacks that are being delivered
        self.healthy = True  # whether the last delivery succeeded


def _list_receivers(tx: Tx) -> list[str]:
    rows = tx.all(
        dict[str, str], "select distinct receiver from callbacks where status = 'pending'"
    )
    return [row["receiver"] for row in rows]


def _list_due(tx: Tx, receiver: str, limit: int) -> tuple[list[Callback], int | None]:
    """Return the due callbacks of a receiver, and when the next one will be due.

    The due callbacks include those being sent, so ``limit`` is the most concurrent deliveries.
    """
    sql = (
        "select * from callbacks where status = 'pending' and receiver = :receiver "
        "order by next_at limit :limit"
    )
    now = now_ms()
    rows = tx.all(Callback, sql, receiver=receiver, limit=limit + 1)
    due = [row for row in rows if row.next_at <= now]
    later = [row.next_at for row in rows if row.next_at > now]
    return due, later[0] if later else None


def _mark_arrived(tx: Tx, callback: Callback, now: int, *, recovered: bool) -> None:
    """Record that a callback arrived; deliver it again if a fault says so.

    Earlier callbacks of its payment that a fault held back are delivered now.
    """
    tx.run(
        "update callbacks set status = case when copies > 0 then 'pending' else 'delivered' end, "
        "copies = max(copies - 1, 0), held = 0, attempts = attempts + 1, next_at = :now "
        "where id = :id",
        id=callback.id,
        now=now,
    )
    tx.run(
        "update callbacks set held = 0, next_at = :now "
        "where payment_id = :payment_id and status = 'pending' and held and id <> :id "
        "and created_at <= :created_at",
        payment_id=callback.payment_id,
        id=callback.id,
        created_at=callback.created_at,
        now=now,
    )
    if recovered:  # the receiver responds again: deliver failed callbacks at once
        tx.run(
            "update callbacks set next_at = :now where receiver = :receiver "
            "and status = 'pending' and attempts > 0 and not held and next_at > :now",
            receiver=callback.receiver,
            now=now,
        )


def _mark_failed(tx: Tx, callback: Callback, now: int, timing: Timing) -> None:
    """Schedule the next attempt, or give up after ``give_up_after_s``."""
    wait_s = timing.retry_s[min(callback.attempts, len(timing.retry_s) - 1)]
    given_up = now + wait_s * 1000 > callback.created_at + timing.give_up_after_s * 1000
    tx.run(
        "update callbacks set status = :status, attempts = attempts + 1, next_at = :next_at, "
        "held = 0 where id = :id",
        id=callback.id,
        status="given_up" if given_up else "pending",
        next_at=now + round(wait_s * 1000),
    )
    if given_up:
        _log.warning("callback %s is given up", callback.id)
