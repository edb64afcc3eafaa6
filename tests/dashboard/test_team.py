"""The page of a merchant's team: who is invited, changed and removed by whom."""

import re

from support.api_server import Shop
from support.people import PASSWORD, Visitor, person, title


def test_an_owner_invites_changes_and_removes(shop: Shop) -> None:
    ada, bob = (person(shop.api_server, shop.id, role) for role in ("owner", "viewer"))
    path = f"/dashboard/{shop.id}/team"
    made = ada.post(f"{path}/invite", {"email": "Carol@example.com", "role": "developer"})
    (link,) = re.findall(r"<code>(http\S+)</code>", made.text)
    assert "carol@example.com is invited" in made.text
    assert link not in ada.get(path).text  # shown once
    assert "carol@example.com" in ada.get(path).text
    carol = Visitor(shop.api_server)
    carol.post(link.removeprefix(shop.api_server.url), {"name": "Carol", "password": PASSWORD})
    assert carol.get(path).status_code == 200
    assert carol.post(f"{path}/invite", {"email": "e@example.com"}).status_code == 403

    ada.post(f"{path}/role", {"person": bob.person_id, "role": "finance"})
    assert "Finance" in bob.get(f"/dashboard/{shop.id}/").text
    assert ada.post(f"{path}/remove", {"person": bob.person_id}).status_code == 303
    assert bob.get(path).status_code == 404
    rows = shop.api_server.sql(
        "select action, who from audit_log where merchant_id = $1 order by number", shop.id
    )
    by_ada = [row["action"] for row in rows if row["who"] == f"{ada.email} ({ada.person_id})"]
    assert by_ada == ["people accept", "people invite", "people role", "people remove"]


def test_removing_somebody_lists_the_keys_that_they_made_and_offers_to_revoke_them(
    shop: Shop,
) -> None:
    owner, keeper, leaver = (
        person(shop.api_server, shop.id, role) for role in ("owner", "developer", "developer")
    )
    keys = f"/dashboard/{shop.id}/developers/keys"
    secrets = []
    for who, name in ((keeper, "Stays"), (leaver, "Warehouse")):
        page = who.post(keys, {"name": name, "scope:products:read": "yes"}).text
        secrets += re.findall(r'id="secret"[^>]* value="(svc_\w+)"', page)
    path = f"/dashboard/{shop.id}/team"
    asked = owner.post(f"{path}/remove", {"person": leaver.person_id})
    assert asked.status_code == 200
    for text in ("Warehouse", secrets[1][-4:], "products:read", "never used"):
        assert text in asked.text
    assert "Stays" not in asked.text
    assert leaver.get(path).status_code == 200  # nothing is done yet
    done = owner.post(f"{path}/remove", {"person": leaver.person_id, "keys": "revoke"})
    assert done.status_code == 303
    assert leaver.get(path).status_code == 404

    def opens(key: str) -> int:
        return shop.call("GET", "/v1/products", headers={"x-api-key": key}).status_code

    assert [opens(key) for key in secrets] == [200, 401]
    owner.post(f"{path}/remove", {"person": keeper.person_id, "keys": "keep"})
    assert keeper.get(path).status_code == 404
    assert opens(secrets[0]) == 200


def create_keys(who: Visitor, shop: Shop, **scope_of: str) -> dict[str, str]:
    """Create a key for each name on the page of keys; return the secrets by name."""
    secrets = {}
    for name, scope in scope_of.items():
        path = f"/dashboard/{shop.id}/developers/keys"
        page = who.post(path, {"name": name, f"scope:{scope}": "yes"}).text
        (secrets[name],) = re.findall(r'id="secret"[^>]* value="(svc_\w+)"', page)
    return secrets


def key_status(shop: Shop, key: str) -> int:
    """Return 401 for a key that has ended; a key without the scope gets 403."""
    return shop.call("GET", "/v1/products", headers={"x-api-key": key}).status_code


def test_lowering_a_role_lists_the_keys_beyond_it_and_offers_to_revoke_them(shop: Shop) -> None:
    owner, lowered, keeper = (
        person(shop.api_server, shop.id, role) for role in ("owner", "developer", "developer")
    )
    secrets = create_keys(lowered, shop, Warehouse="products:write", Orders="orders:read")
    kept = create_keys(keeper, shop, Shelves="products:write")
    path = f"/dashboard/{shop.id}/team"
    form = {"person": lowered.person_id, "role": "viewer"}
    response = owner.post(f"{path}/role", form)
    assert response.status_code == 200
    for text in ("Warehouse", secrets["Warehouse"][-4:], "products:write", "Viewer"):
        assert text in response.text
    assert 'name="keys" value="revoke"' in response.text
    assert 'name="role" value="viewer"' in response.text
    assert secrets["Orders"][-4:] not in response.text  # within the new role
    assert "Shelves" not in response.text  # created by somebody else
    assert lowered.get(f"/dashboard/{shop.id}/developers/keys").status_code == 200
    assert key_status(shop, secrets["Warehouse"]) == 403  # valid: nothing has changed yet

    assert owner.post(f"{path}/role", {**form, "keys": "revoke"}).status_code == 303
    assert key_status(shop, secrets["Warehouse"]) == 401
    assert key_status(shop, secrets["Orders"]) == 403
    form = {"person": keeper.person_id, "role": "viewer", "keys": "keep"}
    assert owner.post(f"{path}/role", form).status_code == 303
    assert key_status(shop, kept["Shelves"]) == 403
    rows = shop.api_server.sql(
        "select action, subject, who from audit_log where merchant_id = $1"
        " and action in ('keys revoke', 'people role') order by number",
        shop.id,
    )
    assert [row["action"] for row in rows] == ["keys revoke", "people role", "people role"]
    assert {row["who"] for row in rows} == {f"{owner.email} ({owner.person_id})"}
    assert secrets["Warehouse"][-4:] in rows[0]["subject"]


def test_a_raised_role_and_keys_within_the_new_role_take_no_question(shop: Shop) -> None:
    owner, member = (person(shop.api_server, shop.id, role) for role in ("owner", "developer"))
    (key,) = create_keys(member, shop, Orders="orders:read").values()
    path = f"/dashboard/{shop.id}/team/role"
    assert owner.post(path, {"person": member.person_id, "role": "viewer"}).status_code == 303
    assert owner.post(path, {"person": member.person_id, "role": "developer"}).status_code == 303
    (beyond,) = create_keys(member, shop, Stock="products:write").values()
    form = {"person": member.person_id, "role": "support", "keys": "keep"}
    assert owner.post(path, form).status_code == 303
    # The role is raised: the key that was kept stays, though support may not give its scope.
    assert owner.post(path, {"person": member.person_id, "role": "owner"}).status_code == 303
    assert [key_status(shop, one) for one in (key, beyond)] == [403, 403]


def test_the_last_owner_stays_owner_and_keeps_the_keys(shop: Shop) -> None:
    owner = person(shop.api_server, shop.id, "owner")
    (key,) = create_keys(owner, shop, Stock="products:write").values()
    form = {"person": owner.person_id, "role": "viewer", "keys": "revoke"}
    refused = owner.post(f"/dashboard/{shop.id}/team/role", form)
    assert refused.status_code == 400
    assert "always has an owner" in refused.text
    assert key_status(shop, key) == 403


def test_what_is_wrong_is_said_and_what_was_typed_stays(shop: Shop) -> None:
    ada = person(shop.api_server, shop.id, "owner")
    path = f"/dashboard/{shop.id}/team"
    for form, sentence in (
        ({"email": "nobody", "role": "finance"}, "Enter an e-mail address"),
        ({"email": ada.email, "role": "finance"}, "is a member already"),
        ({"email": "x@example.com", "role": "boss"}, "Choose one of the roles"),
    ):
        refused = ada.post(f"{path}/invite", form)
        assert refused.status_code == 400
        assert sentence in refused.text
        assert f'value="{form["email"]}"' in refused.text
    for place, form in (
        ("role", {"person": ada.person_id, "role": "viewer"}),
        ("remove", {"person": ada.person_id}),
    ):
        assert "always has an owner" in ada.post(f"{path}/{place}", form).text
    stranger = person(shop.api_server, shop.api_server.shop().id, "owner")
    assert ada.post(f"{path}/remove", {"person": stranger.person_id}).status_code == 404


def test_an_invitation_can_be_withdrawn(shop: Shop) -> None:
    ada, other = (
        person(shop.api_server, one, "owner") for one in (shop.id, shop.api_server.shop().id)
    )
    path = f"/dashboard/{shop.id}/team"
    made = ada.post(f"{path}/invite", {"email": "dan@example.com", "role": "viewer"})
    (link,) = re.findall(r"<code>(http\S+)</code>", made.text)
    (invitation,) = re.findall(r'name="id" value="(inv_\w+)"', ada.get(path).text)
    (place,) = [one["merchant_id"] for one in shop.api_server.sql(
        "select merchant_id from members where person_id = $1", other.person_id
    )]  # fmt: skip
    theirs = other.post(f"/dashboard/{place}/team/withdraw", {"id": invitation})
    assert theirs.status_code == 404
    assert ada.post(f"{path}/withdraw", {"id": invitation}).status_code == 303
    gone = Visitor(shop.api_server).get(link.removeprefix(shop.api_server.url))
    assert title(gone) == "We cannot find this page"
