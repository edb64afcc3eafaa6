"""A token of one kind is not accepted as another kind, which limits the use of a stolen token."""

from typing import Final

import httpx2
import pytest

from opentill import people
from support.api_server import Shop
from support.people import PASSWORD, TESTER, Visitor, create_person, invite, new_address

KINDS: Final = (
    "cookie", "command", "access", "refresh", "refresh, first part", "invitation", "reset", "key",
)  # fmt: skip


class Tokens:
    """A token of each kind; all belong to one owner or to the owner's merchant."""

    def __init__(self, shop: Shop) -> None:
        """Create the tokens."""
        self.shop, api_server = shop, shop.api_server
        self.owner = create_person(api_server, shop.id, "owner")
        credentials = people.Credentials(
            email=self.owner.email, password=PASSWORD, browser=people.Browser("127.0.0.1", "x")
        )
        app, now = api_server.app, api_server.app.clock()
        command_login = api_server.run(
            people.log_in(
                app.db, credentials, app.settings.secret_key, now, people.begin_for_commands
            )
        )
        api_tokens = api_server.http.post(
            "/v1/merchant/sessions", json={"email": self.owner.email, "password": PASSWORD}
        ).json()["data"]
        reset = api_server.tx(
            lambda tx: people.offer_new_password(tx, self.owner.email, now, actor=TESTER)
        )
        self.by_kind: dict[str, str] = {
            "cookie": self.owner.token,
            "command": command_login.token,
            "access": api_tokens["accessToken"],
            "refresh": api_tokens["refreshToken"],
            "refresh, first part": api_tokens["refreshToken"].partition(".")[0],
            "invitation": invite(api_server, new_address(), shop.id, "viewer").token,
            "reset": reset.token,
            "key": shop.key,
        }

    def is_accepted(self, use: str, token: str) -> bool:
        """Return whether a token is accepted as one of the kind ``use``."""
        visitor, http = Visitor(self.shop.api_server), self.shop.api_server.http
        app = self.shop.api_server.app
        if use == "cookie":
            visitor.set_token(token)
            return _is_good(visitor.get(f"/dashboard/{self.shop.id}/"))
        if use == "command":
            login = people.find(app.db, token, "127.0.0.1", app.clock(), use="command")
            return self.shop.api_server.run(login) is not None
        if use == "access":
            bearer = {"authorization": f"Bearer {token}"}
            return _is_good(http.get("/v1/merchant/profile", headers=bearer))
        if use == "refresh":
            body = {"refreshToken": token}
            return _is_good(http.post("/v1/merchant/sessions/refresh", json=body))
        if use == "key":
            return _is_good(http.get("/v1/products", headers={"x-api-key": token}))
        return _is_good(visitor.get(f"/{'invite' if use == 'invitation' else 'reset'}/{token}"))


def _is_good(response: httpx2.Response) -> bool:
    return response.status_code == 200


@pytest.mark.parametrize("kind", KINDS)
def test_a_token_is_accepted_only_for_its_own_use(shop: Shop, kind: str) -> None:
    tokens = Tokens(shop)
    uses = [use for use in KINDS if use != "refresh, first part"]
    accepting_uses = {use for use in uses if tokens.is_accepted(use, tokens.by_kind[kind])}
    assert accepting_uses == ({kind} - {"refresh, first part"})


def test_invitation_links_reset_no_password_and_reset_links_are_no_invitation(shop: Shop) -> None:
    tokens = Tokens(shop)
    visitor = Visitor(shop.api_server)
    form = {"name": "Eve", "password": "seven green gates creak"}
    assert visitor.post(f"/reset/{tokens.by_kind['invitation']}", form).status_code == 404
    assert visitor.post(f"/invite/{tokens.by_kind['reset']}", form).status_code != 200
    assert Visitor(shop.api_server, tokens.owner.email).log_in().status_code == 303
    assert visitor.get(f"/invite/{tokens.by_kind['invitation']}").status_code == 200
    assert visitor.get(f"/reset/{tokens.by_kind['reset']}").status_code == 200
