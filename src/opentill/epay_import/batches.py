"""Orders and refunds of the old server, written in batches; each batch is one transaction."""

from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from typing import Final

import msgspec

from opentill import epay, merchants, orders, refunds
from opentill.core.ids import derived_id, new_session_id
from opentill.core.payment_methods import Method
from opentill.db.database import Tx
from opentill.epay_import.model import CURRENCY, LeftOut, OldOrder, OldRefund, Row
from opentill.epay_import.progress import Done, ImportedMerchant
from opentill.epay_import.rates import METHODS
from opentill.epay_import.reading import Reader
from opentill.epay_import.tables import Tables

SIZE: Final = 2000  # orders of a batch
_OTHER: Final[Method] = "BANK_TRANSFER"  # stands for wallets that are no payment method here
_CAUSE: Final = "epay import"


class Batch(msgspec.Struct, frozen=True):
    """What is written in one transaction."""

    orders: list[OldOrder]
    refunds: list[OldRefund]


def read_batches(
    rows: Iterator[Row],
    tables: Tables,
    reader: Reader,
    belongs: Callable[[int], bool],
) -> Iterator[Batch]:
    """Yield the orders, then the refunds, of merchants that are imported. Raises BadSource.

    Rows that cannot come over were counted by the survey and are skipped here.
    """
    old_orders: list[OldOrder] = []
    old_refunds: list[OldRefund] = []
    for row in rows:
        kind = tables.kind(row.table)
        try:
            if kind == "order":
                order = reader.order(row)
                if belongs(order.uid):
                    old_orders.append(order)
            elif kind == "refundorder":
                refund = reader.refund(row)
                if refund is not None and belongs(refund.uid):
                    old_refunds.append(refund)
        except LeftOut:
            continue
        if len(old_orders) + len(old_refunds) >= SIZE:
            yield Batch(old_orders, old_refunds)
            old_orders, old_refunds = [], []
    if old_orders or old_refunds:
        yield Batch(old_orders, old_refunds)


class Writer:
    """Writes batches; ``gateways`` are the gateways of old channels."""

    def __init__(
        self, imported: Mapping[int, ImportedMerchant], gateways: Mapping[int, str]
    ) -> None:
        """``imported``: merchants by their numbers at the old server."""
        self._merchants = imported
        self._gateways = gateways

    async def write(self, tx: Tx, batch: Batch, now: int) -> Done:
        """Write what is not there yet; return what was written."""
        done = Done()
        await self._write_orders(tx, batch.orders, done, now)
        for uid in sorted({refund.uid for refund in batch.refunds}):
            await merchants.lock(tx, self._merchants[uid].merchant_id)
        for refund in batch.refunds:
            await self._write_refund(tx, refund, done)
        return done

    def _ids(self, uid: int, trade_no: str) -> tuple[str, str]:
        merchant_id = self._merchants[uid].merchant_id
        return merchant_id, order_id(merchant_id, trade_no)

    async def _write_orders(self, tx: Tx, old_orders: list[OldOrder], done: Done, now: int) -> None:
        if not old_orders:
            return
        by_key = {self._ids(order.uid, order.trade_no): order for order in old_orders}
        for stored in await orders.find_imported_states(tx, list(by_key)):
            old = by_key.pop((stored.merchant_id, stored.id))
            done.orders_before += 1
            # An earlier dump has brought the order, and the merchant goes on with its old server.
            was_paid, is_paid = stored.status != "CLOSED", old.paid_at is not None
            if (was_paid, stored.refunded_minor) != (is_paid, old.refunded_minor):
                done.left_out["paid or refunded since an earlier dump brought it"] += 1
                done.changed.add(old.uid)
        if not by_key:
            return
        checkouts = {key: new_session_id() for key in by_key}
        await orders.insert_imported(
            tx, [self._order(key, checkouts[key], old) for key, old in by_key.items()], _CAUSE, now
        )
        await epay.insert_imported_orders(
            tx, [_epay_order(key, checkouts[key], old) for key, old in by_key.items()], now
        )
        await refunds.insert_imported(
            tx,
            [
                refunds.ImportedRefund(
                    merchant_id=key[0],
                    id=sum_id(*key),
                    order_id=key[1],
                    attempt_id=old.trade_no,
                    amount_minor=old.refunded_minor,
                    currency=CURRENCY,
                    at=old.paid_at or old.created_at,
                )
                for key, old in by_key.items()
                if old.refunded_minor
            ],
        )
        done.orders += len(by_key)

    def _order(self, key: tuple[str, str], checkout_id: str, old: OldOrder) -> orders.ImportedOrder:
        metadata = {"out_trade_no": old.out_trade_no, "trade_no": old.trade_no}
        if old.param:
            metadata["param"] = old.param
        return orders.ImportedOrder(
            merchant_id=key[0],
            id=key[1],
            checkout_id=checkout_id,
            product_id=self._merchants[old.uid].product_id,
            name=old.name,
            status=old.status,
            amount_minor=old.amount_minor,
            refunded_minor=old.refunded_minor,
            created_at=old.created_at,
            paid_at=old.paid_at,
            payment_method=_method_of(old),
            attempt_id=old.trade_no,
            gateway=self._gateways.get(old.channel, "manual"),
            provider_ref=old.api_trade_no,
            payer_ip=old.payer_ip,
            client_reference=old.out_trade_no,
            metadata=msgspec.json.encode(metadata).decode(),
        )

    async def _write_refund(self, tx: Tx, refund: OldRefund, done: Done) -> None:
        merchant_id, of_order = self._ids(refund.uid, refund.trade_no)
        is_there = await refunds.split_imported(
            tx,
            merchant_id,
            sum_id(merchant_id, of_order),
            refund_id=derived_id("re", f"{merchant_id} {refund.refund_no}"),
            number=(refund.out_refund_no or refund.refund_no)[:64],
            amount_minor=refund.amount_minor,
            at=refund.created_at,
        )
        if is_there:
            done.refunds += 1
        else:
            done.left_out["a refund of no order, or more than its order says was refunded"] += 1
            done.incomplete.add(refund.uid)


def _method_of(old: OldOrder) -> Method | None:
    method = METHODS.get(old.type)
    return _OTHER if method is None and old.paid_at is not None else method


def order_id(merchant_id: str, trade_no: str) -> str:
    """Return the id of an imported order, which is the same in every run."""
    return derived_id("order", f"{merchant_id} {trade_no}")


def sum_id(merchant_id: str, of_order: str) -> str:
    """Return the id of the refund that stands for all refunds of an order without a number."""
    return derived_id("re", sha256(f"{merchant_id} {of_order}".encode()).hexdigest())


def _epay_order(key: tuple[str, str], checkout_id: str, old: OldOrder) -> "epay.ImportedEpayOrder":
    supported, requested = epay.split_type(old.type)
    state, result = epay.notice_of(old.notify, old.notify_url) if old.paid_at else (None, "")
    return epay.ImportedEpayOrder(
        merchant_id=key[0],
        order_id=key[1],
        checkout_id=checkout_id,
        old_trade_no=old.trade_no,
        out_trade_no=old.out_trade_no,
        type=supported,
        requested_type=requested,
        name=old.name,
        money=old.money,
        money_type=CURRENCY,
        notify_url=old.notify_url,
        return_url=old.return_url,
        param=old.param,
        created_at=old.created_at,
        version=old.version,
        state=state,
        result=result,
    )
