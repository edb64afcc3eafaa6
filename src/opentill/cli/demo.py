"""``opentill demo``: a running server with a merchant, its owner, and a session to pay.

The merchant and the key are created once and stored in ``demo.json`` of the data directory (mode
0600). The product and the session are created by the API.
"""

import shlex
import sys
import threading
from decimal import Decimal
from http import HTTPStatus
from ipaddress import ip_network
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
import typer

from opentill.cli import output, session
from opentill.core.settings import Settings

if TYPE_CHECKING:
    from opentill.db.database import Tx
    from opentill.merchants import Actor

FILE = "demo.json"
ENVIRONMENT = "demo.env"
EMAIL = "customer@example.com"
OWNER = "owner@example.com"
ADMIN = "admin@example.com"
CARD = "4242 4242 4242 4242"
LOOPBACK: Final = (ip_network("127.0.0.0/8"), ip_network("::1/128"))
# The operator's accounts: examples of bank numbers, by which no money moves.
PAYOUT_ACCOUNTS: Final = ",".join(
    f"{currency}:GB29NWBK60161331926819:NWBKGB2LXXX" for currency in ("USD", "EUR", "GBP")
)
# Approximate value of one unit of each currency in USD.
RATES: Final = {
    "EUR": Decimal("1.08"),
    "GBP": Decimal("1.27"),
    "CNY": Decimal("0.14"),
    "HKD": Decimal("0.128"),
    "JPY": Decimal("0.0067"),
    "SGD": Decimal("0.74"),
}


class Demo(msgspec.Struct, frozen=True):
    """The content of ``demo.json``: the demo merchant's ids and API key."""

    merchant_id: str
    product_id: str
    key: str


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(demo)


def demo(
    *,
    workers: Annotated[int, typer.Option(min=1, max=64, help="Server processes.")] = 1,
) -> None:
    """Run a server with a merchant, a product and a session: the quickest way to a paid order.

    Works with the sandbox bank only.
    """
    from opentill.cli.running import Deployment
    from opentill.core.errors import ConfigurationError
    from opentill.server.embedded.datadir import ServerRunning, lock_serve

    settings = session.settings(creates=True)
    # In a live deployment the merchant and the administrator would be real, and the rates wrong.
    if settings.livemode:
        message = (
            "the demonstration is with the sandbox bank only; OPENTILL_GATEWAYS has"
            f" {','.join(settings.gateways)}. To run this deployment: opentill serve"
        )
        raise ConfigurationError(message)
    if settings.database_url is None:
        try:
            lock_serve(settings.data_dir).release()
        except ServerRunning as running:
            if running.url not in ("", settings.public_url):
                raise
            # A server is running: only show its addresses.
            with session.running_database(with_payout_accounts(settings)) as ready:
                _show(ready)
            return

    def in_the_background(ready: Settings) -> None:
        threading.Thread(target=_show_or_say, args=(ready,), name="demo", daemon=True).start()

    settings = with_payout_accounts(with_webhooks_to_loopback(settings))
    sys.exit(Deployment(settings, workers=workers, on_ready=in_the_background).run())


def with_webhooks_to_loopback(settings: Settings) -> Settings:
    """Allow webhooks to this machine by http, so that the example shops receive them.

    The settings are unchanged if other machines can reach the server: their users could send
    requests to programs that listen on loopback only.
    """
    from opentill import config
    from opentill.server.client_address import is_loopback_host

    # For a wildcard host the default public URL names loopback, so the host itself is checked too.
    if not is_loopback_host(settings.host) or not config.is_loopback(settings.public_url):
        return settings
    allowed = (*settings.outgoing_allow, *LOOPBACK)
    return msgspec.structs.replace(settings, outgoing_http=True, outgoing_allow=allowed)


def with_payout_accounts(settings: Settings) -> Settings:
    """Set example bank accounts of the operator, unless some are set: to try payout runs."""
    if settings.payout_accounts:
        return settings
    return msgspec.structs.replace(settings, payout_accounts=PAYOUT_ACCOUNTS)


def _show_or_say(settings: Settings) -> None:
    """Print the demonstration's addresses, in a thread: an error must not end the server."""
    try:
        _show(settings)
    except Exception as error:  # noqa: BLE001 - the server continues after any error
        output.say(f"opentill: the demonstration cannot go on: {error}")


def _show(settings: Settings) -> None:
    demo = _stored_demo(settings.data_dir / FILE) or session.run(_make_merchant(settings))
    if not demo.product_id:
        demo = _with_product(settings, demo)
    checkout = _post(settings, demo.key, "/v1/checkouts", {"productId": demo.product_id})
    links = session.run(_links(settings, demo.merchant_id))
    typer.echo(_text(settings, demo, str(checkout["url"]), *links))
    sys.stdout.flush()


_ACCOUNT_NUMBER: Final = "DE89370400440532013000"  # an example of the IBAN registry


def _stored_demo(path: Path) -> Demo | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Demo)
    except (OSError, msgspec.DecodeError):
        return None


async def _make_merchant(settings: Settings) -> Demo:
    """Create the merchant; with a month of history, unless the sandbox bank runs elsewhere."""
    from opentill import merchants, payouts
    from opentill.cli.demo_history import DAYS, NAME, History
    from opentill.core import bankaccounts
    from opentill.db.database import Db
    from opentill.orders.model import DAY_MS
    from opentill.server.embedded.datadir import write_private

    has_bank = not settings.sandbox_elsewhere
    db = await Db.connect(settings.database_url or "", 1, prepared=settings.db_prepared)
    try:
        now = await session.now(db)

        async def make(tx: "Tx") -> tuple[History, merchants.NewKey]:
            actor = merchants.Actor("opentill demo", "Setup of the demo")
            began = now - DAYS * DAY_MS if has_bank else now
            merchant = await merchants.create(
                tx, name=NAME, now=began, who=actor.who, reason=actor.reason
            )
            history = History(merchant.id, settings.public_url)
            if has_bank:
                account = bankaccounts.check_account(NAME, _ACCOUNT_NUMBER)
                rule = payouts.HoldRule(settings.secret_key, 0)
                await payouts.change_account(tx, merchant.id, account, actor, rule, began)
                await history.happen(tx, now)
            key = await merchants.create_key(
                tx,
                merchant.id,
                settings.environment,
                now,
                merchants.KeyFields(name="Demo"),
                actor=actor,
            )
            await _set_rates(tx, actor, now)
            return history, key

        history, new = await db.run(make)
    finally:
        await db.close()
    if has_bank:
        await history.record_at_bank(settings)
    new_demo = Demo(new.merchant_id, "", new.key)
    write_private(settings.data_dir / FILE, msgspec.json.encode(new_demo).decode())
    return new_demo


async def _links(settings: Settings, merchant_id: str) -> list[tuple[str, str]]:
    """Return the addresses of dashboard and console, each with instructions."""
    from opentill import merchants, people
    from opentill.core.errors import Invalid
    from opentill.db.database import Db

    base = settings.public_url.rstrip("/")
    actor = merchants.Actor("opentill demo", "Start of the demo")
    db = await Db.connect(settings.database_url or "", 1, prepared=settings.db_prepared)

    async def offer_account(email: str, role_text: str, **place: Any) -> tuple[str, str]:
        now = await session.now(db)
        try:
            new_link = await db.run(lambda tx: people.invite(tx, email, now, actor=actor, **place))
        except Invalid:  # the person is a member or staff already
            return f"{base}/login", f"log in as {email}, with the password that you chose"
        return base + new_link.path, f"choose a name and a password: you are {role_text}, {email}"

    try:
        return [
            await offer_account(OWNER, "the owner", merchant_id=merchant_id, role="owner"),
            await offer_account(ADMIN, "the administrator", staff_role="admin"),
        ]
    finally:
        await db.close()


async def _set_rates(tx: "Tx", actor: "Actor", now: int) -> None:
    """Set example exchange rates, so that products can be sold in other currencies."""
    from opentill import merchants, rates
    from opentill.http.csvfile import format_utc

    for base, rate in RATES.items():
        if await rates.find_newest(tx, base, "USD", now) is None:
            await rates.put(tx, base, "USD", rate, now)
            subject = f"{base} USD {rate} from {format_utc(now)}"
            await merchants.record_audit(tx, actor, "rates set", "", subject, now)


def _with_product(settings: Settings, demo: Demo) -> Demo:
    from opentill.cli import demo_images
    from opentill.server.embedded.datadir import write_private

    product = {
        "name": "A cup of tea",
        "description": "Green, 300 ml. It is a demonstration: no money moves.",
        "price": "4.20",
        "currency": "USD",
    }
    if not settings.sandbox_elsewhere:  # with a month of history there are pictures
        product["image"] = demo_images.url(settings.public_url, demo.merchant_id, "cup")
    created_product = _post(settings, demo.key, "/v1/products", product)
    demo = msgspec.structs.replace(demo, product_id=str(created_product["id"]))
    write_private(settings.data_dir / FILE, msgspec.json.encode(demo).decode())
    return demo


def _post(settings: Settings, key: str, path: str, body: dict[str, str]) -> dict[str, object]:
    """Call the API like a merchant's program. Raises ``ConfigurationError`` for an error."""
    import httpx2

    from opentill import config
    from opentill.core.errors import ConfigurationError

    # Call the server itself, because the proxy at the public URL may not be running yet.
    url = config.base_url(settings.host, settings.port) + path
    try:
        response = httpx2.post(url, json=body, headers={"x-api-key": key}, timeout=10)
    except httpx2.HTTPError as error:
        message = f"{url} does not respond ({str(error) or type(error).__name__})"
        raise ConfigurationError(message) from None
    if response.status_code != HTTPStatus.CREATED:
        message = f"{path} responded with {response.status_code} {response.text}"
        if response.status_code == HTTPStatus.UNAUTHORIZED:  # the key belongs to another database
            message += f"; remove {settings.data_dir / FILE} to begin anew"
        raise ConfigurationError(message)
    data: dict[str, object] = response.json()["data"]
    return data


def _write_environment(settings: Settings, demo: Demo) -> Path:
    """Write the README's environment variables as a shell script; return its absolute path."""
    from opentill import config
    from opentill.server.embedded.datadir import write_private

    data_dir = settings.data_dir.absolute()
    # Commands in another terminal, such as ``health``, need the addresses of this server.
    values = {
        "KEY": demo.key,
        "API": f"{config.base_url(settings.host, settings.port)}/v1",
        "OPENTILL_DATA_DIR": str(data_dir),
        "OPENTILL_HOST": settings.host,
        "OPENTILL_PORT": str(settings.port),
        "OPENTILL_PUBLIC_URL": settings.public_url,
        "OPENTILL_SANDBOX_PORT": str(settings.sandbox_port),
        "OPENTILL_PAYOUT_ACCOUNTS": settings.payout_accounts,
    }
    lines = [f"export {name}={shlex.quote(value)}" for name, value in values.items()]
    lines.append(f'export PATH={shlex.quote(str(Path(sys.executable).parent))}:"$PATH"')
    write_private(data_dir / ENVIRONMENT, "\n".join(lines) + "\n")
    return data_dir / ENVIRONMENT


def _text(
    settings: Settings, demo: Demo, url: str, dashboard: tuple[str, str], console: tuple[str, str]
) -> str:
    file = settings.data_dir.absolute() / FILE
    rows = (
        #  label      value            explanation
        ("Pay here", url, f"card {CARD}, any later date, any CVC; email {EMAIL}"),
        ("Dashboard", *dashboard),
        ("Console", *console),
        ("API key", demo.key, f"kept in {file}; its payments are not real money"),
    )
    lines = [f"\n{label + ':':10} {value}\n{'':10} ({note})" for label, value, note in rows]
    environment = shlex.quote(str(_write_environment(settings, demo)))
    last = (
        "\nFor the examples in README.md open a second terminal and begin with this line:"
        f"\n  . {environment}\n"
    )
    return "\n".join([*lines, last])
