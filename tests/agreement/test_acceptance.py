"""Acceptances of the agreement are immutable; a new version must be accepted again."""

import asyncpg
import msgspec
import pytest

from opentill import agreement
from opentill.agreement import AcceptedBy
from opentill.core.settings import Settings
from opentill.db.database import Tx
from support import world

BY = AcceptedBy(
    person_id="per_1", name="Ada", email="ada@example.com", address="192.0.2.1", device="x"
)


async def test_a_new_version_must_be_accepted_and_old_acceptances_stay(tx: Tx) -> None:
    shop, current = await world.create_merchant(tx), agreement.current(Settings())
    assert agreement.status(current, []) == "NONE"
    digest = current.rendered_document_sha256
    await agreement.accept(tx, shop.id, current, digest, BY, world.NOW)
    accepted = await agreement.acceptances(tx, shop.id)
    assert agreement.status(current, accepted) == "ACCEPTED"
    newer = msgspec.structs.replace(current, agreement_version="2.0")
    assert agreement.status(newer, accepted) == "OUTDATED"
    await agreement.accept(tx, shop.id, newer, digest, BY, world.NOW + 1)
    versions = [
        acceptance.agreement_version for acceptance in await agreement.acceptances(tx, shop.id)
    ]
    assert versions == ["2.0", current.agreement_version]


@pytest.mark.parametrize(
    "statement",
    [
        "update agreement_acceptances set person = 'somebody else'",
        "delete from agreement_acceptances",
        "truncate agreement_acceptances",
    ],
)
async def test_the_database_refuses_to_change_an_acceptance(tx: Tx, statement: str) -> None:
    shop, current = await world.create_merchant(tx), agreement.current(Settings())
    digest = current.rendered_document_sha256
    await agreement.accept(tx, shop.id, current, digest, BY, world.NOW)
    with pytest.raises(asyncpg.IntegrityConstraintViolationError):
        async with tx.transaction():
            await tx.execute(statement)
