"""A token of one kind is not accepted as another, so that a stolen one has a single use."""

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
    """A token of each kind, all of one owner and their merchant."""

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

    def opens(self, place: str, token: str) -> bool:
        """Whether a token is accepted for one use."""
        visitor, http = Visitor(self.shop.api_server), self.shop.api_server.http
        app = self.shop.api_server.app
        if place == "cookie":
            visitor.set_token(token)
            return _is_good(visitor.get(f"/dashboard/{self.shop.id}/"))
        if place == "command":
            login = people.find(app.db, token, "127.0.0.1", app.clock(), use="command")
            return self.shop.api_server.run(login) is not None
        if place == "access":
            bearer = {"authorization": f"Bearer {token}"}
            return _is_good(http.get("/v1/merchant/profile", headers=bearer))
        if place == "refresh":
            body = {"refreshToken": token}
            return _is_good(http.post("/v1/merchant/sessions/refresh", json=body))
        if place == "key":
            return _is_good(http.get("/v1/products", headers={"x-api-key": token}))
        return _is_good(visitor.get(f"/{'invite' if place == 'invitation' else 'reset'}/{token}"))


def _is_good(response: httpx2.Response) -> bool:
    return response.status_code == 200


@pytest.mark.parametrize("kind", KINDS)
def test_a_token_is_accepted_only_for_its_own_use(shop: Shop, kind: str) -> None:
    tokens = Tokens(shop)
    places = [place for place in KINDS if place != "refresh, first part"]
    # The refresh token last: a wrong second part ends its login.
    accepting = {place for place in places if tokens.opens(place, tokens.by_kind[kind])}
    assert accepting == ({kind} - {"refresh, first part"})


def test_an_invitation_is_no_password_reset_and_the_reverse(shop: Shop) -> None:
    tokens = Tokens(shop)
    visitor = Visitor(shop.api_server)
    form = {"name": "Eve", "password": "seven green doors creak"}
    assert visitor.post(f"/reset/{tokens.by_kind['invitation']}", form).status_code == 404
    assert visitor.post(f"/invite/{tokens.by_kind['reset']}", form).status_code != 200
    assert Visitor(shop.api_server, tokens.owner.email).log_in().status_code == 303
    assert visitor.get(f"/invite/{tokens.by_kind['invitation']}").status_code == 200
    assert visitor.get(f"/reset/{tokens.by_kind['reset']}").status_code == 200
