"""Adding, pausing, retiring and rotating accounts, and what may be seen of their credentials."""

import json
from typing import Any, Final

import asyncpg
import msgspec
import pytest

from opentill.core import encryption
from opentill.core.errors import Invalid, NotFound
from opentill.core.settings import Settings
from opentill.db.database import Tx
from opentill.gateways import accounts
from opentill.gateways.account import GatewayAccount
from opentill.gateways.account_modes import mode_of_credentials
from opentill.gateways.accounts import AmountLimit, NewAccount, service, stored_credentials
from support import world
from support.api_server import SECRETS
from support.people import TESTER
from support.world import HOUR, NOW

_SECRETS: Final[dict[str, Any]] = dict(SECRETS)
SETTINGS: Final = Settings(**_SECRETS)
BANK: Final = {"url": "http://127.0.0.1:9", "secret": "s" * 28 + "tail"}
STRIPE: Final = {"secret_key": "sk_live_" + "x" * 20, "webhook_secret": "whsec_" + "y" * 20}


def create_request(**changes: Any) -> NewAccount:
    """Return a request to add an account at a sandbox bank."""
    fields: dict[str, Any] = {"gateway": "sandbox", "label": "Main", "credentials": BANK}
    return NewAccount(**(fields | changes))


async def add(tx: Tx, **changes: Any) -> GatewayAccount:
    """Add an account."""
    return await accounts.add(tx, SETTINGS, create_request(**changes), NOW, actor=TESTER)


async def read_audit(tx: Tx, account: GatewayAccount) -> list[tuple[str, str]]:
    """Return the actions on an account and their persons, oldest first."""
    rows = await tx.fetch(
        "select action, who from audit_log where subject like $1 order by number",
        f"{account.id}%",
    )
    return [(row["action"], row["who"]) for row in rows]


LOCAL: Final = "http://127.0.0.1:8430"
STRIPE_TEST: Final = STRIPE | {"secret_key": "sk_test_" + "x" * 20}


@pytest.mark.parametrize(
    ("gateway", "credentials", "livemode"),
    [
        ("sandbox", BANK, False),
        ("stripe", STRIPE, True),
        ("stripe", STRIPE_TEST, False),
        ("stripe", STRIPE | {"api_base": "https://api.stripe.com"}, True),
        ("stripe", STRIPE_TEST | {"api_base": LOCAL}, False),
        ("stripe", STRIPE | {"api_base": LOCAL}, None),
        ("paypal", {}, True),
        ("paypal", {"url": "https://api-m.sandbox.paypal.com"}, False),
        ("paypal", {"url": LOCAL}, None),
        ("paypal", {"url": "https://api-m.paypal.com.example.com"}, None),
        ("alipay", {}, True),
        ("alipay", {"url": "https://openapi-sandbox.dl.alipaydev.com/gateway.do"}, False),
        ("alipay", {"url": f"{LOCAL}/gateway.do"}, None),
        ("wechat_pay", {}, True),
        ("wechat_pay", {"url": LOCAL}, None),
        ("epay", {"url": "https://pay.example.com/"}, None),
        ("evm", {"chain_id": "1"}, True),
        ("evm", {"chain_id": "84532"}, False),
        ("evm", {"chain_id": "123456"}, None),
    ],
)
def test_only_the_providers_own_addresses_say_whether_money_is_real(
    gateway: str, credentials: dict[str, str], livemode: bool | None
) -> None:
    assert mode_of_credentials(gateway, credentials) is livemode


async def test_the_money_must_be_chosen_if_the_credentials_do_not_say_it(tx: Tx) -> None:
    fields: dict[str, Any] = {"gateway": "stripe", "credentials": STRIPE | {"api_base": LOCAL}}
    with pytest.raises(Invalid, match="--test or --live") as problem:
        await add(tx, **fields)
    assert problem.value.field == "test"
    for livemode in (True, False):
        account = await add(tx, label=f"Live: {livemode}", livemode=livemode, **fields)
        assert account.livemode is livemode


async def test_credentials_are_encrypted_and_only_their_ends_are_shown(tx: Tx) -> None:
    account = await add(tx)
    stored = await accounts.find_stored(tx, account.id)
    assert json.loads(account.credential_hints) == {"secret": "…tail", "url": BANK["url"]}
    assert stored_credentials.decrypt(SETTINGS, account.id, stored.credentials) == BANK
    assert BANK["secret"].encode() not in stored.credentials
    assert BANK["secret"] not in f"{account} {stored!r} {create_request()!r}"
    with pytest.raises(encryption.WrongKey):  # another account's credentials cannot be copied
        stored_credentials.decrypt(SETTINGS, "gat_other", stored.credentials)
    assert await read_audit(tx, account) == [("gateways add", TESTER.who)]


def test_short_secrets_are_not_shown_at_all() -> None:
    credentials = {"url": "https://pay.example/", "pid": "1001", "key": "12345678"}
    assert stored_credentials.mask("epay", credentials)["key"] == "…"
    assert stored_credentials.mask("epay", credentials)["pid"] == "1001"
    assert stored_credentials.mask("a-gateway-of-others", {"pid": "1" * 20}) == {"pid": "…1111"}


async def test_the_id_names_the_mode(tx: Tx) -> None:
    test_account = await add(tx)
    live_account = await add(tx, gateway="stripe", label="EU", credentials=STRIPE)
    assert (test_account.livemode, live_account.livemode) == (False, True)
    assert (test_account.id[:4], live_account.id[:3]) == ("gat_", "ga_")
    test_key = STRIPE | {"secret_key": "rk_test_" + "x" * 20}
    assert not (await add(tx, gateway="stripe", label="T", credentials=test_key)).livemode


USD: Final = AmountLimit("USD", 100, 200)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"label": " "}, "label"),
        ({"label": "x" * 61}, "label"),
        ({"label": "two\nlines"}, "label"),
        ({"gateway": "manual"}, "gateway"),
        ({"gateway": "nope"}, "gateway"),
        ({"priority": 0}, "priority"),
        ({"weight": 1001}, "weight"),
        ({"livemode": True}, "test"),
        ({"gateway": "stripe", "credentials": STRIPE, "livemode": False}, "test"),
        ({"limits": (USD, USD)}, "limit"),
        ({"limits": (AmountLimit("usd", 1, 2),)}, "limit"),
        ({"limits": (AmountLimit("USD", 2, 1),)}, "limit"),
        ({"limits": (AmountLimit("USD", 0, None),)}, "limit"),
        ({"limits": (AmountLimit("USD", None, None),)}, "limit"),
        ({"methods": "CARD"}, "methods"),
        ({"methods": "CREDIT_CARD:XXY"}, "methods"),
        ({"credentials": {"url": BANK["url"]}}, "secret"),
        ({"credentials": BANK | {"key": "k"}}, "key"),
        ({"credentials": BANK | {"secret": "x\ny"}}, "secret"),
        ({"gateway": "stripe", "credentials": {}}, "secret_key"),
        ({"gateway": "stripe", "credentials": STRIPE | {"secret_key": "pk_live_1"}}, "secret_key"),
        ({"gateway": "stripe", "credentials": STRIPE | {"webhook_secret": ""}}, "webhook_secret"),
        ({"gateway": "epay", "credentials": {"url": "https://pay.example/"}}, "pid"),
    ],
)  # fmt: skip
def test_bad_input_is_refused_at_its_field(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(Invalid) as refusal:
        service.build(create_request(**changes), SETTINGS)
    assert refusal.value.field == field
    assert str(refusal.value.reason).startswith(field)
    for secret in create_request(**changes).credentials.values():
        assert len(secret) < 16 or secret not in str(refusal.value)


async def test_two_accounts_in_use_cannot_have_the_same_label(tx: Tx) -> None:
    account = await add(tx)
    with pytest.raises(Invalid, match="label must be one that no other account of its owner has"):
        await add(tx, label="MAIN")
    await accounts.set_status(tx, account.id, "RETIRED", NOW, actor=TESTER)
    await add(tx, label="MAIN")


async def test_an_account_may_belong_to_an_existing_merchant(tx: Tx) -> None:
    merchant = await world.create_merchant(tx)
    account = await add(tx, merchant_id=merchant.id)
    assert account.merchant_id == merchant.id
    with pytest.raises(NotFound):
        await add(tx, label="Other", merchant_id="mer_00000000000000000000000000")


async def test_limits_and_methods_are_stored(tx: Tx) -> None:
    limits = (AmountLimit("USD", 100, None), AmountLimit("EUR", None, 5000))
    account = await add(tx, limits=limits, methods="CREDIT_CARD", priority=5, weight=7)
    assert account.limit_currencies == ["EUR", "USD"]
    assert (account.smallest_minor, account.largest_minor) == ([None, 100], [5000, None])
    assert (account.methods, account.priority, account.weight) == ("CREDIT_CARD", 5, 7)


async def test_a_retired_account_stays_retired(tx: Tx) -> None:
    account = await add(tx)
    for status in ("PAUSED", "PAUSED", "ACTIVE", "RETIRED"):
        assert (
            await accounts.set_status(tx, account.id, status, NOW, actor=TESTER)
        ).status == status
    for status in ("ACTIVE", "PAUSED"):
        with pytest.raises(Invalid, match="status must be ACTIVE or PAUSED: Main is retired"):
            await accounts.set_status(tx, account.id, status, NOW, actor=TESTER)
    actions = [action for action, _ in await read_audit(tx, account)]
    assert actions == ["gateways add", "gateways pause", "gateways resume", "gateways retire"]
    assert (await accounts.find(tx, account.id)).revision == 4
    with pytest.raises(NotFound):
        await accounts.set_status(tx, "gat_00000000000000000000000000", "PAUSED", NOW, actor=TESTER)


async def test_an_account_cannot_be_deleted(tx: Tx) -> None:
    account = await add(tx)
    with pytest.raises(asyncpg.IntegrityConstraintViolationError, match="never deleted"):
        async with tx.transaction():
            await tx.execute("delete from gateway_accounts where id = $1", account.id)


async def test_a_rotation_keeps_the_old_credentials_for_a_time(tx: Tx) -> None:
    account = await add(tx)
    new = BANK | {"secret": "n" * 28 + "next"}
    rotated = await accounts.rotate(tx, SETTINGS, account.id, new, NOW + HOUR, actor=TESTER)
    stored = await accounts.find_stored(tx, account.id)
    assert rotated.previous_until == NOW + 25 * HOUR
    assert json.loads(rotated.credential_hints)["secret"] == "…next"
    assert stored_credentials.decrypt(SETTINGS, account.id, stored.credentials) == new
    assert stored.previous_credentials is not None
    assert stored_credentials.decrypt(SETTINGS, account.id, stored.previous_credentials) == BANK
    assert (await read_audit(tx, account))[-1] == ("gateways rotate", TESTER.who)


@pytest.mark.parametrize(
    ("credentials", "changes", "field"),
    [
        ({"url": BANK["url"]}, {}, "secret"),
        (BANK, {"overlap_ms": -1}, "overlap"),
        (BANK, {"overlap_ms": 31 * 24 * HOUR}, "overlap"),
    ],
)
async def test_a_bad_rotation_changes_nothing(
    tx: Tx, credentials: dict[str, str], changes: dict[str, Any], field: str
) -> None:
    account = await add(tx)
    with pytest.raises(Invalid) as refusal:
        await accounts.rotate(tx, SETTINGS, account.id, credentials, NOW, actor=TESTER, **changes)
    assert refusal.value.field == field
    assert await accounts.find(tx, account.id) == account


async def test_a_rotation_cannot_change_the_mode(tx: Tx) -> None:
    account = await add(tx, gateway="stripe", label="EU", credentials=STRIPE)
    test_key = STRIPE | {"secret_key": "sk_test_" + "x" * 20}
    with pytest.raises(Invalid, match="credentials must be for real money"):
        await accounts.rotate(tx, SETTINGS, account.id, test_key, NOW, actor=TESTER)


async def test_the_sandbox_bank_is_refused_where_it_may_not_run(tx: Tx) -> None:
    refused = msgspec.structs.replace(SETTINGS, sandbox_refused="Set OPENTILL_SANDBOX=yes.")
    with pytest.raises(Invalid, match="gateway must be another one: Set OPENTILL_SANDBOX"):
        service.build(create_request(), refused)


async def test_only_accounts_of_gateways_that_report_refunds_count_as_reporting(tx: Tx) -> None:
    epay = {"url": "https://pay.example/", "pid": "1001", "key": "k" * 16}
    stripe_account = await add(tx, gateway="stripe", label="S", credentials=STRIPE)
    epay_account = await add(tx, gateway="epay", label="E", credentials=epay, livemode=True)
    reporting = await accounts.with_self_reporting(tx, {"sandbox"})
    assert stripe_account.id in reporting
    assert epay_account.id not in reporting
    assert "sandbox" in reporting
    assert "stripe" not in reporting  # it is not among the environment's gateways


async def test_the_audit_log_names_the_merchant_of_an_account(tx: Tx) -> None:
    merchant = await world.create_merchant(tx)
    await add(tx, merchant_id=merchant.id)
    row = await tx.fetchrow(
        "select merchant_id, action from audit_log order by number desc limit 1"
    )
    assert row is not None
    assert (row["merchant_id"], row["action"]) == (merchant.id, "gateways add")
