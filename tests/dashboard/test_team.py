"""The page of a merchant's team: invitations, roles, and the removal of members."""

import re

from dashboard.pages import text_of
from opentill.dashboard import role_table
from opentill.people.permissions import RULES
from support.api_server import Shop
from support.people import PASSWORD, Visitor, create_person, heading_of


def invite(owner: Visitor, shop: Shop, email: str, role: str) -> str:
    """Invite a person; return the link that the page shows."""
    page = owner.post(f"/dashboard/{shop.id}/team/invite", {"email": email, "role": role}).text
    assert f"{email.lower()} is invited" in page
    (link,) = re.findall(r'value="(http\S+/(?:invite|reset)/[^"]+)"', page)
    return str(link)


def create_keys(member: Visitor, shop: Shop, **scopes: str) -> dict[str, str]:
    """Create a key for each name and scope on the page of keys; return the secrets by name."""
    secrets: dict[str, str] = {}
    for name, scope in scopes.items():
        path = f"/dashboard/{shop.id}/developers/keys"
        page = member.post(path, {"name": name, f"scope:{scope}": "yes"}).text
        (secrets[name],) = re.findall(r'id="secret"[^>]* value="(svc_\w+)"', page)
    return secrets


def key_status(shop: Shop, key: str) -> int:
    """Read products with a key; return the status: 403 without the scope, 401 if it is invalid."""
    return shop.call("GET", "/v1/products", headers={"x-api-key": key}).status_code


def test_an_owner_invites_changes_and_removes_members(shop: Shop) -> None:
    ada, bob = (create_person(shop.api_server, shop.id, role) for role in ("owner", "viewer"))
    path = f"/dashboard/{shop.id}/team"
    link = invite(ada, shop, "Carol@example.com", "developer")
    assert link not in ada.get(path).text  # the link is shown only once
    assert "carol@example.com" in ada.get(path).text
    carol = Visitor(shop.api_server)
    carol.post(link.removeprefix(shop.api_server.url), {"name": "Carol", "password": PASSWORD})
    assert carol.get(path).status_code == 200
    assert carol.post(f"{path}/invite", {"email": "e@example.com"}).status_code == 403

    changed = ada.post(f"{path}/role", {"person": bob.person_id, "role": "finance"})
    assert "The role is changed." in ada.get(changed.headers["location"]).text
    assert "Finance" in bob.get(f"/dashboard/{shop.id}/").text
    assert f'id="remove-{bob.person_id}" popover role="alertdialog"' in ada.get(path).text
    removed = ada.post(f"{path}/remove", {"person": bob.person_id})
    assert "The member is removed" in ada.get(removed.headers["location"]).text
    assert bob.get(path).status_code == 404
    rows = shop.api_server.sql(
        "select action, who from audit_log where merchant_id = $1 order by number", shop.id
    )
    actions = [row["action"] for row in rows if row["who"] == f"{ada.email} ({ada.person_id})"]
    assert actions == ["people accept", "people invite", "people role", "people remove"]


def test_removing_a_member_lists_their_keys_and_offers_to_revoke_them(
    shop: Shop,
) -> None:
    owner, remaining_member, leaving_member = (
        create_person(shop.api_server, shop.id, role)
        for role in ("owner", "developer", "developer")
    )
    (remaining_key,) = create_keys(remaining_member, shop, Stays="products:read").values()
    (warehouse_key,) = create_keys(leaving_member, shop, Warehouse="products:read").values()
    path = f"/dashboard/{shop.id}/team"
    confirmation = owner.post(f"{path}/remove", {"person": leaving_member.person_id})
    assert confirmation.status_code == 200
    for text in ("Warehouse", warehouse_key[-4:], "products:read", "never used"):
        assert text in confirmation.text
    assert "Stays" not in confirmation.text
    assert leaving_member.get(path).status_code == 200  # the removal is not confirmed yet
    removed = owner.post(f"{path}/remove", {"person": leaving_member.person_id, "keys": "revoke"})
    assert removed.status_code == 303
    assert leaving_member.get(path).status_code == 404
    assert [key_status(shop, key) for key in (remaining_key, warehouse_key)] == [200, 401]
    owner.post(f"{path}/remove", {"person": remaining_member.person_id, "keys": "keep"})
    assert remaining_member.get(path).status_code == 404
    assert key_status(shop, remaining_key) == 200


def test_lowering_a_role_lists_the_keys_beyond_it_and_offers_to_revoke_them(shop: Shop) -> None:
    owner, demoted_member, other_member = (
        create_person(shop.api_server, shop.id, role)
        for role in ("owner", "developer", "developer")
    )
    secrets = create_keys(demoted_member, shop, Warehouse="products:write", Orders="orders:read")
    (shelves_key,) = create_keys(other_member, shop, Shelves="products:write").values()
    path = f"/dashboard/{shop.id}/team"
    form = {"person": demoted_member.person_id, "role": "viewer"}
    response = owner.post(f"{path}/role", form)
    assert response.status_code == 200
    for text in ("Warehouse", secrets["Warehouse"][-4:], "products:write", "Viewer"):
        assert text in response.text
    assert 'name="keys" value="revoke"' in response.text
    assert 'name="role" value="viewer"' in response.text
    assert secrets["Orders"][-4:] not in response.text  # this key does not exceed the new role
    assert "Shelves" not in response.text  # this key belongs to another member
    assert demoted_member.get(f"/dashboard/{shop.id}/developers/keys").status_code == 200
    # 403: the key is valid, but lacks the scope.
    assert key_status(shop, secrets["Warehouse"]) == 403

    assert owner.post(f"{path}/role", {**form, "keys": "revoke"}).status_code == 303
    assert key_status(shop, secrets["Warehouse"]) == 401
    assert key_status(shop, secrets["Orders"]) == 403
    form = {"person": other_member.person_id, "role": "viewer", "keys": "keep"}
    assert owner.post(f"{path}/role", form).status_code == 303
    assert key_status(shop, shelves_key) == 403
    rows = shop.api_server.sql(
        "select action, subject, who from audit_log where merchant_id = $1"
        " and action in ('keys revoke', 'people role') order by number",
        shop.id,
    )
    assert [row["action"] for row in rows] == ["keys revoke", "people role", "people role"]
    assert {row["who"] for row in rows} == {f"{owner.email} ({owner.person_id})"}
    assert secrets["Warehouse"][-4:] in rows[0]["subject"]


def test_a_role_is_changed_without_confirmation_if_no_key_exceeds_it(shop: Shop) -> None:
    owner, member = (
        create_person(shop.api_server, shop.id, role) for role in ("owner", "developer")
    )
    (within_role,) = create_keys(member, shop, Orders="orders:read").values()
    path = f"/dashboard/{shop.id}/team/role"
    assert owner.post(path, {"person": member.person_id, "role": "viewer"}).status_code == 303
    assert owner.post(path, {"person": member.person_id, "role": "developer"}).status_code == 303
    (beyond_role,) = create_keys(member, shop, Stock="products:write").values()
    form = {"person": member.person_id, "role": "support", "keys": "keep"}
    assert owner.post(path, form).status_code == 303
    # Raising a role needs no confirmation, although the old role could not create this key.
    assert owner.post(path, {"person": member.person_id, "role": "owner"}).status_code == 303
    assert [key_status(shop, key) for key in (within_role, beyond_role)] == [403, 403]


def test_the_last_owner_stays_owner_and_keeps_the_keys(shop: Shop) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    (key,) = create_keys(owner, shop, Stock="products:write").values()
    form = {"person": owner.person_id, "role": "viewer", "keys": "revoke"}
    refusal = owner.post(f"/dashboard/{shop.id}/team/role", form)
    assert refusal.status_code == 400
    assert "always has an owner" in refusal.text
    assert key_status(shop, key) == 403


def test_an_invalid_invitation_shows_its_error_and_keeps_its_input(shop: Shop) -> None:
    ada = create_person(shop.api_server, shop.id, "owner")
    path = f"/dashboard/{shop.id}/team"
    for form, error in (
        ({"email": "nobody", "role": "finance"}, "Enter an email address"),
        ({"email": ada.email, "role": "finance"}, "is a member already"),
        ({"email": "x@example.com", "role": "boss"}, "Choose one of the roles"),
    ):
        refusal = ada.post(f"{path}/invite", form)
        assert refusal.status_code == 400
        assert error in refusal.text
        assert f'value="{form["email"]}"' in refusal.text
    for action, form in (
        ("role", {"person": ada.person_id, "role": "viewer"}),
        ("remove", {"person": ada.person_id}),
    ):
        refusal = ada.post(f"{path}/{action}", form).text
        assert "always has an owner" in refusal
        assert 'id="invite" popover' in refusal  # the form of invitations stays closed
    stranger = create_person(shop.api_server, shop.api_server.create_shop().id, "owner")
    assert ada.post(f"{path}/remove", {"person": stranger.person_id}).status_code == 404


def test_a_new_link_of_an_invitation_replaces_the_first(shop: Shop) -> None:
    ada = create_person(shop.api_server, shop.id, "owner")
    first = invite(ada, shop, "dan@example.com", "support")
    page = ada.get(f"/dashboard/{shop.id}/team").text
    assert '<input type="hidden" name="email" value="dan@example.com">' in page
    assert '<input type="hidden" name="role" value="support">' in page
    second = invite(ada, shop, "dan@example.com", "support")
    stranger = Visitor(shop.api_server)
    headings = [
        heading_of(stranger.get(link.removeprefix(shop.api_server.url))) for link in (first, second)
    ]
    assert headings[0] == "This link has expired"
    assert headings[1].startswith("Join ")


def test_an_invitation_can_be_withdrawn(shop: Shop) -> None:
    other_shop = shop.api_server.create_shop()
    ada, stranger = (
        create_person(shop.api_server, shop_id, "owner") for shop_id in (shop.id, other_shop.id)
    )
    path = f"/dashboard/{shop.id}/team"
    link = invite(ada, shop, "dan@example.com", "viewer")
    (invitation,) = re.findall(r'name="id" value="(inv_\w+)"', ada.get(path).text)
    form = {"id": invitation}
    assert stranger.post(f"/dashboard/{other_shop.id}/team/withdraw", form).status_code == 404
    withdrawn = ada.post(f"{path}/withdraw", form)
    assert "The invitation is withdrawn." in ada.get(withdrawn.headers["location"]).text
    page = Visitor(shop.api_server).get(link.removeprefix(shop.api_server.url))
    assert heading_of(page) == "This link has expired"


def test_the_only_owner_can_neither_leave_nor_change_their_role(shop: Shop) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    viewer = create_person(shop.api_server, shop.id, "viewer")
    page = owner.get(f"/dashboard/{shop.id}/team")
    assert f'name="person" value="{owner.person_id}"' not in page.text
    assert f'name="person" value="{viewer.person_id}"' in page.text
    assert "No second factor" in text_of(page)
    assert "No second factor" not in text_of(viewer.get(f"/dashboard/{shop.id}/team"))
    row = re.search(r'<li><div class="who">.*?</li>', page.text, re.DOTALL)
    assert row is not None
    assert re.findall(r"<span class=\"status\">(\w+)</span>", row[0]) == ["You", "Owner"]
    create_person(shop.api_server, shop.id, "owner")
    page = owner.get(f"/dashboard/{shop.id}/team")
    assert f'name="person" value="{owner.person_id}"' in page.text


def test_the_table_of_roles_has_each_permission_of_members_once(shop: Shop) -> None:
    listed = [name for names in role_table.PERMISSIONS.values() for name in names]
    assert sorted(listed) == sorted(rule.permission for rule in RULES if rule.members)
    viewer = create_person(shop.api_server, shop.id, "viewer")
    page = viewer.get(f"/dashboard/{shop.id}/team").text
    cells = {
        text_of(name): [text_of(cell) for cell in re.findall(r"<td>(.*?)</td>", row)]
        for name, row in re.findall(r'<th scope="row">(.*?)</th>(.*?)</tr>', page, re.DOTALL)
    }
    assert len(cells) == len(listed)
    # Owner, Finance, Support, Developer, Viewer
    assert cells["Refund payments"] == ["Yes", "Yes", "Yes", "– No", "– No"]
    assert cells["Create, change or delete an API key"] == ["Yes", "– No", "– No", "Yes", "– No"]
