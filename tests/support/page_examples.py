"""Customers' pages for payments in every state, rendered from example structs."""

from zoneinfo import ZoneInfo

import msgspec

from opentill.core.money import Money
from opentill.merchants import Seller
from opentill.pages.model import (
    METHODS,
    Attempt,
    Brand,
    Deposit,
    Item,
    Link,
    LinkEntries,
    Payment,
    Receipt,
    TokenAmount,
)
from opentill.pages.render import (
    Page,
    Visit,
    continue_page,
    deposit_page,
    link_page,
    open_page,
    receipt_page,
    refusal_page,
    status_page,
    trouble_page,
)
from opentill.receipts import model as receipts
from opentill.web.language import Localizer

NOW = 1_795_233_600_000
MINUTE = 60_000

PAYMENT = Payment(
    session_id="cs_0123456789abcdefghjkmnpqrstvwxyz",
    session_status="OPEN",
    expires_at=NOW + 23 * 60 * MINUTE,
    merchant="Harbour Books",
    item=Item(
        "The Cartographer’s Notebook",
        "Thread-sewn, 192 dotted pages, with a pocket for maps.",
        None,
    ),
    amount=Money(999, "USD"),
    order_id="order_01k0a1b2c3d4e5f6g7h8j9kmnp",
    order_status="PENDING",
    success_url="https://shop.example/thanks?session={CHECKOUT_SESSION_ID}",
    cancel_url="https://shop.example/basket",
    email="maria@example.com",
    methods=METHODS,
)
DEPOSIT = Deposit(
    network="Ethereum",
    address="0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266",
    tokens=(
        TokenAmount("USDT", "12345678.123456", "ethereum:0x1"),
        TokenAmount("USDC", "12345678.123456", "ethereum:0x2"),
    ),
    received=Money(400, "USD"),
)
ATTEMPT = Attempt(
    id="att_01k0a1b2c3d4e5f6g7h8j9kmnp",
    status="ACTION_REQUIRED",
    method="CREDIT_CARD",
    action_url="https://bank.example/pay/abc",
)
HOSTILE = (
    "\u202e\u2067<script>alert(1)</script>\"'>&amp;{{7*7}}${1}\u200f"
    "<img src=x onerror=alert(1)>" + "W" * 120
)
HOSTILE_PAYMENT = msgspec.structs.replace(
    PAYMENT,
    merchant=HOSTILE[:80],
    item=Item(HOSTILE, HOSTILE * 4, "javascript:alert(1)"),
    email='"><script>alert(1)</script>@x',
    name=HOSTILE,
    success_url="javascript:alert(1)",
    cancel_url='https://x.example/"><script>',
    attempt=msgspec.structs.replace(
        ATTEMPT, action_url='https://x.example/"><script>', qr_text=HOSTILE
    ),
    brand=Brand(
        email='"><script>alert(1)</script>@x',
        url="javascript:alert(1)",
        terms='https://x.example/"><script>',
    ),
)


def _receipt_of(payment: Payment) -> receipts.Receipt:
    """Return the receipt of a payment that was refunded in part."""
    unit = Money(100, payment.amount.currency)
    return receipts.Receipt(
        merchant_id="mer_1",
        number="261121-4K7D-9QXM-T3RW",
        session_id=payment.session_id,
        order_id=payment.order_id,
        shop=payment.merchant,
        item=payment.item.name,
        quantity=1,
        amount=payment.amount,
        paid_at=NOW,
        shop_zone=ZoneInfo("Asia/Shanghai"),
        livemode=payment.livemode,
        method="CREDIT_CARD",
        card="Visa •••• 4242",
        email=payment.email,
        refunded=unit,
        refunds=[receipts.ReceiptRefund(unit, NOW, Money(16, payment.amount.currency))],
        seller=Seller(
            legal_name=payment.name or "Harbour Books GmbH",
            legal_address="Hafenstraße 1\n20457 Hamburg",
            tax_number="DE123456789",
            tax_rate="0.19",
        ),
    )


def _render_links(payment: Payment, visit: Visit) -> dict[str, Page]:
    """Render the pages of a payment link for a payment's item."""
    link = Link(
        slug="0123456789abcdefghjkmnpqrstvwxyz",
        state="ACTIVE",
        merchant=payment.merchant,
        item=payment.item,
        least=payment.amount,
        most=payment.amount,
        most_at_once=9,
        unfinished=payment.session_id,
        livemode=payment.livemode,
        brand=payment.brand,
    )
    name = payment.name or "x"
    entries = LinkEntries(quantity=name, amount=name, form_id="f" * 32)
    most = Money(payment.amount.minor * 1000, payment.amount.currency)
    return {
        "link": link_page(link, visit, LinkEntries()),
        "link-many": link_page(
            msgspec.structs.replace(link, most_at_once=3, quantity=3),
            visit,
            LinkEntries(quantity="3"),
        ),
        "link-quantity": link_page(
            link, visit, entries, {"quantity": "Enter a whole number from 1 to {most}"}
        ),
        "link-amount": link_page(
            msgspec.structs.replace(link, most=most, most_at_once=1),
            visit,
            entries,
            {"amount": "Enter an amount from {least} to {most}"},
        ),
        "link-used": link_page(
            msgspec.structs.replace(link, state="USED_UP", unfinished=None), visit, entries
        ),
    }


def render_pages(
    localizer: Localizer, payment: Payment = PAYMENT, public_url: str = ""
) -> dict[str, Page]:
    """Render every page that a payment can have; name → page."""
    visit = Visit(
        localizer=localizer, now=NOW, public_url=public_url, test_mode=not payment.livemode
    )
    attempt = payment.attempt or ATTEMPT
    paid = msgspec.structs.replace(
        payment, order_status="PAID", paid_at=NOW, method="CREDIT_CARD", methods=()
    )

    def with_attempt(**changes: object) -> Payment:
        return msgspec.structs.replace(payment, attempt=msgspec.structs.replace(attempt, **changes))

    qr_attempt = msgspec.structs.replace(
        attempt, method="ALIPAY", action_url="", qr_text=attempt.qr_text or "https://qr.example"
    )
    transfer_attempt = msgspec.structs.replace(
        attempt,
        method="BANK_TRANSFER",
        action_url="",
        qr_text=attempt.qr_text or "IBAN DE00 0000\nReference 4711",
    )
    deposit_attempt = msgspec.structs.replace(attempt, method="CRYPTO", action_url="")
    return {
        "open": open_page(msgspec.structs.replace(payment, attempt=None), visit),
        "wallet-or-card": open_page(
            msgspec.structs.replace(payment, attempt=None, wallet="PayPal"), visit
        ),
        "test-mode": open_page(
            msgspec.structs.replace(payment, attempt=None, livemode=False), visit
        ),
        "errors": open_page(
            payment,
            visit,
            errors={
                "email": "Enter an email address such as name@example.com",
                "method": "Select a payment method",
            },
        ),
        "declined": open_page(with_attempt(status="DECLINED", reason="insufficient_funds"), visit),
        "unfinished": open_page(with_attempt(status="ACTION_REQUIRED"), visit),
        "no-methods": open_page(msgspec.structs.replace(payment, methods=()), visit),
        "continue": continue_page(payment, visit, attempt),
        "qr": continue_page(payment, visit, qr_attempt),
        "transfer": continue_page(payment, visit, transfer_attempt),
        "deposit": deposit_page(payment, visit, deposit_attempt, DEPOSIT),
        "waiting": status_page(payment, visit, "waiting"),
        "paid": status_page(paid, visit, "paid"),
        "refunded": status_page(
            msgspec.structs.replace(paid, refunded=payment.amount), visit, "refunded"
        ),
        "receipt": receipt_page(
            Receipt(
                payment=msgspec.structs.replace(paid, refunded=Money(100, payment.amount.currency)),
                receipt=_receipt_of(paid),
                own_zone=ZoneInfo("Europe/Brussels"),
            ),
            visit,
            zone="Mars",
            zone_error=True,
            no_pdf=True,
        ),
        "expired": status_page(payment, visit, "expired"),
        "closed": status_page(payment, visit, "closed"),
        "failed": status_page(payment, visit, "failed"),
        "revoked": status_page(payment, visit, "revoked"),
        "open-email-optional": open_page(
            msgspec.structs.replace(payment, email="", email_optional=True), visit
        ),
        "open-many": open_page(
            msgspec.structs.replace(payment, quantity=3, reference=payment.name or "INV-2026-0042"),
            visit,
        ),
        **_render_links(payment, visit),
        "submission-refused": refusal_page(visit, -1, "money 须为大于 0、最多两位小数的金额"),
        "missing": trouble_page("missing", visit),
        "refused": trouble_page("refused", visit, again="/checkout/x"),
        "busy": trouble_page("busy", visit, again="/checkout/x"),
        "unavailable": trouble_page("unavailable", visit, again="/checkout/x"),
    }
