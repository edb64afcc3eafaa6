"""A small shop in Python, with its own order numbers. It ships each paid order once.

KEY=svc_live_… python examples/python-shop/shop.py

Comments that begin with "Here:" say what a real shop must add. The program needs only the standard
library and `opentill.client`. Settings: KEY, OPENTILL_URL, PORT, SHOP_URL, SHOP_DATA.
"""

import html
import os
import re
import secrets
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from decimal import Decimal
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from opentill.client import (
    Client,
    OpenTillError,
    OrderPaid,
    ValidationFailed,
    WebhookInvalid,
    verify_webhook,
)

PORT = int(os.environ.get("PORT", "3000"))
SHOP_URL = os.environ.get("SHOP_URL", f"http://127.0.0.1:{PORT}")
DATA = os.environ.get("SHOP_DATA", "python-shop.sqlite")
CURRENCY = "USD"
GOODS = {  # article number → name and price
    "TEA": ("Green tea, 100 g", "9.99"),
    "POT": ("Teapot", "34.50"),
    "CUP": ("Cup", "7.00"),
}
TABLES = """
create table if not exists settings (name text primary key, value text not null);
create table if not exists orders (
  number integer primary key,
  cart text not null unique,
  article text not null,
  amount text not null,
  session text unique,
  paid_at integer,
  shipped_at integer
);
create table if not exists events (id text primary key);
"""
client = Client(os.environ.get("OPENTILL_URL", "http://127.0.0.1:8080"), os.environ["KEY"])


@contextmanager
def transaction() -> Iterator[sqlite3.Connection]:
    """Run the block in a serializable transaction, which is rolled back if the block fails."""
    with closing(sqlite3.connect(DATA, timeout=30, isolation_level=None)) as db, db:
        db.execute("begin immediate")
        yield db


def setting(name: str, create: Callable[[], str]) -> str:
    """Return a stored setting. If there is none, call ``create`` and store its result."""
    with transaction() as db:
        row = db.execute("select value from settings where name = ?", (name,)).fetchone()
    if row is None:
        value = create()  # outside of a transaction, because it calls the API
        with transaction() as db:
            db.execute("insert or ignore into settings values (?, ?)", (name, value))
            row = db.execute("select value from settings where name = ?", (name,)).fetchone()
    return str(row[0])


def set_up() -> tuple[dict[str, str], str]:
    """Create missing products and the endpoint; return the products' ids and the secret.

    A repetition uses the same idempotency keys, so a lost response creates nothing twice. The
    server knows a key for seven days, so the ids and the secret are stored.
    """
    with closing(sqlite3.connect(DATA)) as db:
        db.executescript(TABLES)
    shop = setting("shop", lambda: secrets.token_hex(8))

    def create_product(article: str) -> str:
        name, price = GOODS[article]
        created = client.products.create(
            name=name,
            price=price,
            currency=CURRENCY,
            metadata={"article": article},
            idempotency_key=f"{shop}-{article}-{price}",
        )
        return created.id

    def create_endpoint() -> str:
        endpoint = client.webhook_endpoints.create(
            f"{SHOP_URL}/webhook", events=["order.paid"], idempotency_key=f"{shop}-endpoint"
        )
        return endpoint.secret

    products = {
        article: setting(f"product {article} {price}", partial(create_product, article))
        for article, (_, price) in GOODS.items()
    }
    try:
        return products, setting("secret", create_endpoint)
    except ValidationFailed as error:
        reason = f"no webhooks to {SHOP_URL}: {error.reason} (see README.md)"
        raise SystemExit(reason) from error


def place_order(cart: str, article: str) -> str:
    """Place the order of a cart and return where its customer pays. Idempotent."""
    amount = GOODS[article][1]
    with transaction() as db:
        db.execute(
            "insert or ignore into orders (number, cart, article, amount)"
            " select coalesce(max(number), 1000) + 1, ?, ?, ? from orders",
            (cart, article, amount),
        )
        row = db.execute(
            "select number, article, session, paid_at from orders where cart = ?", (cart,)
        ).fetchone()
    number, article, old_session, paid_at = row
    key = f"cart-{cart}"  # after seven days, only the stored session prevents a second one
    if old_session is not None:
        if paid_at is not None or check_payment(old_session) == (number, True):
            return f"{SHOP_URL}/thanks?session={old_session}"
        existing = client.checkouts.get(old_session)
        if existing.status == "OPEN":
            return existing.url
        key += f"-{old_session}"  # the old session ended unpaid: create another one
    session = client.checkouts.create(
        PRODUCTS[article],
        success_url=f"{SHOP_URL}/thanks?session={{CHECKOUT_SESSION_ID}}",
        cancel_url=f"{SHOP_URL}/",
        client_reference=str(number),  # customers see it, and staff can search for it
        metadata={"cart": cart},  # the event contains it
        idempotency_key=key,
    )
    with transaction() as db:
        db.execute("update orders set session = ? where number = ?", (session.id, number))
    return session.url


def record_payment(db: sqlite3.Connection, number: int, amount: Decimal, currency: str) -> None:
    """Record that an order is paid, and ship the order. Idempotent."""
    article, price = db.execute(
        "select article, amount from orders where number = ?", (number,)
    ).fetchone()
    if (Decimal(price), CURRENCY) != (amount, currency):
        print(f"order {number}: {amount} {currency} is not what it costs", flush=True)
        return
    now = int(time.time())
    changed = db.execute(
        "update orders set paid_at = ?, shipped_at = ? where number = ? and shipped_at is null",
        (now, now, number),
    )
    if changed.rowcount == 1:  # Here: insert a parcel into a table for the packers.
        print(f"shipping order {number}: {GOODS[article][0]}", flush=True)


def check_payment(session_id: str) -> tuple[int, bool] | None:
    """Return the number of a session's order and whether it is paid, as the API says."""
    with transaction() as db:
        row = db.execute("select number from orders where session = ?", (session_id,)).fetchone()
    if row is None:
        return None
    order = client.orders.get(client.checkouts.get(session_id).order_id)
    if order.status not in ("PAID", "SETTLED"):
        return row[0], False
    with transaction() as db:
        record_payment(db, row[0], order.amount, order.currency)
    return row[0], True


def handle_event(body: bytes, headers: dict[str, str]) -> int:
    """Handle an event once; return the status of the response."""
    try:
        event = verify_webhook(body, headers, SECRET)
    except WebhookInvalid:
        return 400
    with transaction() as db:
        is_new = db.execute("insert or ignore into events values (?)", (event.id,)).rowcount == 1
        if not is_new:
            return 204
        print(f"event {event.id}: {event.type}", flush=True)
        if isinstance(event, OrderPaid):
            cart = str(event.data.metadata.get("cart"))
            row = db.execute("select number from orders where cart = ?", (cart,)).fetchone()
            if row is not None:  # the merchant may also sell elsewhere
                record_payment(db, row[0], event.data.amount, event.data.currency)
    return 204


def catalogue_page() -> str:
    """Return the page of products. Each has its own cart, so a double click places one order."""
    rows = "".join(
        f"<li>{html.escape(name)}, {price} {CURRENCY}"
        f'<form method="post" action="/buy"><input type="hidden" name="cart" value="{cart}">'
        f'<button name="article" value="{article}">Buy</button></form></li>'
        for article, (name, price) in GOODS.items()
        for cart in [secrets.token_hex(16)]
    )
    return f"<h1>Tea House</h1><ul>{rows}</ul>"


def orders_page() -> str:
    """Return the page of orders. Here: show it to the shop's staff only."""
    with transaction() as db:
        records = db.execute(
            "select number, article, amount, paid_at, shipped_at from orders"
        ).fetchall()
    rows = "".join(
        f"<tr><td>{number}</td><td>{html.escape(GOODS[article][0])}</td>"
        f"<td>{amount} {CURRENCY}</td>"
        f"<td>{'paid' if paid else 'open'}</td><td>{'shipped' if shipped else ''}</td></tr>"
        for number, article, amount, paid, shipped in records
    )
    return f"<h1>Orders</h1><table>{rows}</table>"


class Handler(BaseHTTPRequestHandler):
    """Serves the shop's pages and receives its webhooks."""

    def do_GET(self) -> None:
        """Respond with a page."""
        try:
            self.show_page()
        except OpenTillError as error:
            self.show_failure(error)

    def show_page(self) -> None:
        """Respond with the page of the address. Raises OpenTillError."""
        path, query = urlsplit(self.path).path, parse_qs(urlsplit(self.path).query)
        if path in ("/", "/orders"):
            self.show(200, catalogue_page() if path == "/" else orders_page())
        elif path == "/thanks" and (payment := check_payment(query.get("session", [""])[0])):
            number, paid = payment
            waiting = f"<h1>Order {number} is not paid yet</h1><p>Reload this page.</p>"
            self.show(200, f"<h1>Thank you: order {number} is paid</h1>" if paid else waiting)
        else:
            self.show(404, "<h1>Not found</h1>")

    def do_POST(self) -> None:
        """Place an order or handle an event."""
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        if self.path == "/webhook":
            self.send_response(handle_event(body, dict(self.headers)))
            self.end_headers()
            return
        form = {name: values[0] for name, values in parse_qs(body.decode()).items()}
        is_cart = re.fullmatch(r"[0-9a-f]{32}", form.get("cart", ""))
        if self.path != "/buy" or form.get("article") not in GOODS or not is_cart:
            self.show(404, "<h1>Not found</h1>")
            return
        try:
            url = place_order(form["cart"], form["article"])
        except OpenTillError as error:
            self.show_failure(error)
            return
        self.send_response(303)
        self.send_header("location", url)
        self.end_headers()

    def show_failure(self, error: OpenTillError) -> None:
        """Print the error and ask the customer to try again."""
        print(f"{error} ({error.request_id})", flush=True)
        self.show(503, "<h1>Please try again</h1>")

    def show(self, status: int, text: str) -> None:
        """Send a response with a page."""
        self.send_response(status)
        self.send_header("content-type", "text/html; charset=utf-8")
        self.end_headers()
        self.wfile.write(f"<!doctype html><title>Tea House</title>{text}".encode())

    def log_message(self, *_: object) -> None:
        """Do not log requests."""


if __name__ == "__main__":
    PRODUCTS, SECRET = set_up()
    server = ThreadingHTTPServer(("127.0.0.1", PORT), Handler)
    print(f"the shop is open: {SHOP_URL}", flush=True)
    server.serve_forever()
