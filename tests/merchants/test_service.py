"""The services that create merchants, change terms and manage keys check their input."""

from decimal import Decimal
from typing import Any, Final

import pytest

from opentill import merchants
from opentill.core.errors import Invalid, NotFound
from opentill.db.database import Tx
from opentill.merchants import model
from support.api_server import ApiServer

NOW: Final = 1_795_233_600_000
WHO_AND_WHY: Final = {"who": "ann", "reason": "agreed by phone"}


def _refused_field(api_server: ApiServer, operation: Any) -> str:
    """Run a function in a transaction, which must refuse a field; return the field's name."""
    with pytest.raises(Invalid) as refused:
        api_server.tx(operation)
    return refused.value.field or ""


def test_the_default_overdraft_limit_is_100_of_the_currency(api_server: ApiServer) -> None:
    for currency, minor in (("USD", 10_000), ("JPY", 100), ("KWD", 100_000)):
        shop = api_server.create_shop(settlement_currency=currency)
        merchant = api_server.tx(lambda tx, shop=shop: merchants.find(tx, shop.id))
        assert merchant.overdraft_minor == minor


def test_changed_terms_apply_to_new_sessions_only(api_server: ApiServer) -> None:
    shop = api_server.create_shop()
    before = shop.create_order()
    change = WHO_AND_WHY | {"platform_fee_rate": Decimal("0.1")}
    api_server.tx(lambda tx: merchants.change(tx, shop.id, NOW, **change))
    assert shop.read_order(before["id"])["platformFee"] == "0.40"
    assert shop.create_order()["platformFee"] == "1.00"


def test_an_unknown_merchant_or_key_is_not_found(api_server: ApiServer) -> None:
    for operation in (
        lambda tx: merchants.find(tx, "mer_none"),
        lambda tx: merchants.change(tx, "mer_none", NOW, **WHO_AND_WHY, name="x"),
        lambda tx: merchants.create_key(tx, "mer_none", "production", NOW),
        lambda tx: merchants.revoke_key(tx, "key_none", NOW),
        lambda tx: merchants.regenerate_key(tx, "key_none", NOW),
    ):
        with pytest.raises(NotFound):
            api_server.tx(operation)


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
    field = _refused_field(
        api_server,
        lambda tx: merchants.create_key(
            tx, shop.id, "production", NOW, merchants.KeyFields(expires_at=NOW)
        ),
    )
    assert field == "expiresAt"


def test_the_audit_log_requires_a_reason(api_server: ApiServer) -> None:
    async def record(tx: Tx, reason: str) -> None:
        await merchants.record_audit(tx, merchants.Actor("me", reason), "test", "", "x", NOW)

    assert _refused_field(api_server, lambda tx: record(tx, " ")) == "reason"
    api_server.tx(lambda tx: record(tx, " why "))
    assert api_server.sql("select reason from audit_log where subject = 'x'") == [{"reason": "why"}]


@pytest.mark.parametrize("environment", ["production", "staging"])
def test_a_key_consists_of_prefix_40_characters_and_checksum(environment: Any) -> None:
    other_environment = "staging" if environment == "production" else "production"
    for _ in range(50):
        key = model.generate_key(environment)
        assert len(key) == len(model.PREFIXES[environment]) + 46
        assert model.is_key(key, environment)
        assert not model.is_key(key, other_environment)
        assert not model.is_key(key + "\n", environment)
        key_with_typo = key[:20] + ("a" if key[20] != "a" else "b") + key[21:]
        assert not model.is_key(key_with_typo, environment)
