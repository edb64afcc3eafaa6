"""The services of merchants, keys and the audit log."""

from decimal import Decimal
from typing import Any, Final

import pytest

from opentill import merchants
from opentill.core.errors import Invalid, NotFound
from opentill.db.database import Tx
from opentill.merchants import model
from support.api_server import ApiServer

NOW: Final = 1_795_233_600_000
WHY: Final = {"who": "ann", "reason": "agreed by phone"}


def _refused(api_server: ApiServer, step: Any) -> str:
    with pytest.raises(Invalid) as refused:
        api_server.tx(step)
    return refused.value.field or ""


TERMS: Final[tuple[tuple[str, Any, str], ...]] = (
    ("name", "", "name"),
    ("name", "n" * 201, "name"),
    ("settlement_currency", "XXX", "settlement_currency"),
    ("platform_fee_rate", Decimal(1), "platform_fee_rate"),
    ("platform_fee_rate", Decimal("-0.01"), "platform_fee_rate"),
    ("platform_fee_rate", Decimal("0.0000001"), "platform_fee_rate"),
    ("platform_fee_rate", Decimal("NaN"), "platform_fee_rate"),
    ("reserve_rate", Decimal("Infinity"), "reserve_rate"),
    ("overdraft_minor", -1, "overdraft"),
    ("overdraft_minor", 10**15 + 1, "overdraft"),
    ("settlement_delay_days", 366, "settlement_delay_days"),
    ("reserve_days", 3651, "reserve_days"),
    ("ip_allowlist", ("192.0.2.1/24",), "ip_allowlist"),
    ("ip_allowlist", ("nonsense",), "ip_allowlist"),
)


@pytest.mark.parametrize(("term", "value", "field"), TERMS)
def test_invalid_terms_are_refused(
    api_server: ApiServer, term: str, value: Any, field: str
) -> None:
    terms = {"name": "M"} | {term: value}
    assert _refused(api_server, lambda tx: merchants.create(tx, now=NOW, **terms)) == field
    if term != "settlement_currency":
        shop = api_server.create_shop()
        change = WHY | {term: value}
        assert (
            _refused(api_server, lambda tx: merchants.change(tx, shop.id, NOW, **change)) == field
        )


def test_the_default_overdraft_limit_is_100_of_the_currency(api_server: ApiServer) -> None:
    for currency, minor in (("USD", 10_000), ("JPY", 100), ("KWD", 100_000)):
        shop = api_server.create_shop(settlement_currency=currency)
        merchant = api_server.tx(lambda tx, shop=shop: merchants.find(tx, shop.id))
        assert merchant.overdraft_minor == minor


def test_changed_terms_apply_to_new_sessions_only(api_server: ApiServer) -> None:
    shop = api_server.create_shop()
    before = shop.create_order()
    change = WHY | {"platform_fee_rate": Decimal("0.1")}
    api_server.tx(lambda tx: merchants.change(tx, shop.id, NOW, **change))
    assert shop.read_order(before["id"])["platformFee"] == "0.40"
    assert shop.create_order()["platformFee"] == "1.00"


def test_an_unknown_merchant_or_key_is_not_found(api_server: ApiServer) -> None:
    for step in (
        lambda tx: merchants.find(tx, "mer_none"),
        lambda tx: merchants.change(tx, "mer_none", NOW, **WHY, name="x"),
        lambda tx: merchants.create_key(tx, "mer_none", "production", NOW),
        lambda tx: merchants.revoke_key(tx, "key_none", NOW),
        lambda tx: merchants.regenerate_key(tx, "key_none", NOW),
    ):
        with pytest.raises(NotFound):
            api_server.tx(step)


def test_a_revoked_key_cannot_be_revoked_again(api_server: ApiServer) -> None:
    shop = api_server.create_shop()
    api_server.tx(lambda tx: merchants.revoke_key(tx, shop.key_id, NOW))
    with pytest.raises(NotFound):
        api_server.tx(lambda tx: merchants.revoke_key(tx, shop.key_id, NOW))
    (key,) = api_server.tx(lambda tx: merchants.keys(tx, shop.id))
    assert key.revoked_at == NOW
    assert key.hint.startswith("svc_live_…")


def test_only_the_digest_of_a_key_is_stored(api_server: ApiServer) -> None:
    shop = api_server.create_shop()
    (row,) = api_server.sql("select * from api_keys where id = $1", shop.key_id)
    assert row["key_sha256"] == model.digest(shop.key)
    assert shop.key not in str(row)
    assert shop.key[9:30] not in str(row)


def test_the_expiry_of_a_key_must_be_in_the_future(api_server: ApiServer) -> None:
    shop = api_server.create_shop()
    field = _refused(
        api_server,
        lambda tx: merchants.create_key(
            tx, shop.id, "production", NOW, merchants.KeyFields(expires_at=NOW)
        ),
    )
    assert field == "expiresAt"


def test_the_audit_log_requires_a_reason(api_server: ApiServer) -> None:
    async def record(tx: Tx, reason: str) -> None:
        await merchants.record_audit(tx, merchants.Actor("me", reason), "test", "", "x", NOW)

    assert _refused(api_server, lambda tx: record(tx, " ")) == "reason"
    api_server.tx(lambda tx: record(tx, " why "))
    assert api_server.sql("select reason from audit_log where subject = 'x'") == [{"reason": "why"}]


@pytest.mark.parametrize("environment", ["production", "staging"])
def test_a_key_consists_of_prefix_40_characters_and_checksum(environment: Any) -> None:
    other = "staging" if environment == "production" else "production"
    for _ in range(50):
        key = model.generate_key(environment)
        assert len(key) == len(model.PREFIXES[environment]) + 46
        assert model.is_key(key, environment)
        assert not model.is_key(key, other)
        assert not model.is_key(key + "\n", environment)
        wrong = key[:20] + ("a" if key[20] != "a" else "b") + key[21:]
        assert not model.is_key(wrong, environment)
