"""A key that is created while its creator's role is lowered never exceeds the new role."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import httpx2
import pytest

from opentill import people
from opentill.db.database import Tx
from opentill.merchants import Actor, KeyFields
from opentill.people import key_scopes
from spec.test_key_scopes import TokenCaller
from support.api_server import Shop
from support.people import TESTER, reset_login_limits
from support.waits import find_waiting_session

__all__ = ["reset_login_limits"]

SCOPE: Final = "products:write"


def send_during(
    shop: Shop, change: Callable[[Tx], Awaitable[None]], request: Callable[[], httpx2.Response]
) -> httpx2.Response:
    """Send a request while a change is made but not committed; return its response."""
    db = shop.api_server.app.db

    async def work() -> httpx2.Response:
        async with db.transaction() as tx, db.connection() as observer:
            await change(tx)
            response = asyncio.ensure_future(asyncio.to_thread(request))
            async with asyncio.timeout(20):
                while not response.done() and await find_waiting_session(observer) is None:
                    await asyncio.sleep(0.005)
        return await response

    return shop.api_server.run(work())


def valid_keys(shop: Shop, person_id: str) -> list[list[str] | None]:
    """Return the scopes of the valid keys that a person created."""
    now = shop.api_server.app.clock()
    keys = shop.api_server.tx(lambda tx: key_scopes.keys_made_by(tx, person_id, now, shop.id))
    return [key.scopes for key in keys]


@pytest.mark.parametrize("role_change", ["lowered", "removed"])
@pytest.mark.parametrize("operation", ["create", "regenerate", "page"])
def test_a_key_beyond_the_new_role_is_refused(shop: Shop, operation: str, role_change: str) -> None:
    developer = TokenCaller(shop, "developer")
    person_id, now = developer.visitor.person_id, shop.api_server.app.clock()
    path: str = "/keys"
    body: dict[str, list[str]] = {"scopes": [SCOPE]}
    if operation == "regenerate":
        owner = TokenCaller(shop, "owner")
        key_id = owner.call("POST", "/keys", {"scopes": [SCOPE]}).json()["data"]["id"]
        path, body = f"/keys/{key_id}/regenerate", {}

    async def change(tx: Tx) -> None:
        if role_change == "removed":
            await people.remove(tx, shop.id, person_id, now, actor=TESTER)
        else:
            await people.change_role(tx, shop.id, person_id, "viewer", now, actor=TESTER)

    def send() -> httpx2.Response:
        if operation == "page":
            keys_page = f"/dashboard/{shop.id}/developers/keys"
            return developer.visitor.post(keys_page, {"name": "Till", f"scope:{SCOPE}": "yes"})
        return developer.call("POST", path, body)

    assert send_during(shop, change, send).status_code == 403
    assert valid_keys(shop, person_id) == []


def test_a_role_that_is_lowered_while_a_key_is_created_ends_that_key(shop: Shop) -> None:
    owner, developer = TokenCaller(shop, "owner"), TokenCaller(shop, "developer")
    person_id, app = developer.visitor.person_id, shop.api_server.app

    async def create(tx: Tx) -> None:
        await key_scopes.create_key(
            tx,
            shop.id,
            app.settings.environment,
            app.clock(),
            KeyFields(name="Till", scopes=[SCOPE]),
            actor=Actor(people.named(developer.visitor.email, person_id), "for a test"),
        )

    body = {"role": "viewer", "revokeKeys": True}
    response = send_during(shop, create, lambda: owner.call("PATCH", f"/team/{person_id}", body))
    assert response.status_code == 200
    assert valid_keys(shop, person_id) == []
