"""Staff in the console: invitations, roles, logins, removal; one administrator always remains."""

import asyncio
import re

import pytest

from opentill import people
from opentill.core.errors import Invalid
from opentill.core.ids import new_id
from opentill.db.database import Db, Tx
from opentill.people import queries
from support.api_server import Shop
from support.people import PASSWORD, TESTER, Visitor, create_person, invite, new_address

PATH = "/console/people"


def test_an_administrator_invites_a_person_changes_their_role_logs_them_out_and_removes_them(
    shop: Shop,
) -> None:
    admin, email = create_person(shop.api_server, None, staff_role="admin"), new_address()
    page = admin.post(f"{PATH}/invite", {"email": email, "role": "finance"})
    (link,) = re.findall(r'value="(http\S+/(?:invite|reset)/[^"]+)"', page.text)
    assert link not in admin.get(PATH).text  # the link is shown only once
    bob = Visitor(shop.api_server, email)
    joined = bob.post(link.removeprefix(shop.api_server.url), {"name": "Bob", "password": PASSWORD})
    assert joined.headers["location"] == "/console"
    assert bob.get("/console").status_code == 200
    second_invitation = admin.post(f"{PATH}/invite", {"email": email, "role": "finance"})
    assert "This person is staff already" in second_invitation.text

    (row,) = shop.api_server.sql("select id from persons where email = $1", email)
    bobs_page = f"{PATH}/{row['id']}"
    assert "Testfox" in admin.get(bobs_page).text
    assert bob.get(PATH).status_code == 403  # the role finance may not see staff
    assert admin.post(f"{bobs_page}/role", {"role": "boss"}).status_code == 400
    assert admin.post(f"{bobs_page}/role", {"role": "auditor"}).status_code == 303
    assert bob.get(PATH).status_code == 200
    assert bob.post(f"{bobs_page}/role", {"role": "admin"}).status_code == 403
    assert admin.post(f"{bobs_page}/logout").status_code == 303
    assert bob.get(PATH).headers["location"].startswith("/login")
    bob.log_in()
    assert admin.post(f"{bobs_page}/remove").status_code == 303
    assert bob.get(PATH).status_code == 404
    assert admin.get(bobs_page).status_code == 404
    rows = shop.api_server.sql(
        "select action from audit_log where who = $1 order by number",
        admin.audit_name,
    )
    actions = [row["action"] for row in rows]
    assert actions[-4:] == ["people invite", "people role", "people logout", "people remove"]


def test_an_invitation_to_the_staff_is_withdrawn(shop: Shop) -> None:
    admin, email = create_person(shop.api_server, None, staff_role="admin"), new_address()
    page = admin.post(f"{PATH}/invite", {"email": email, "role": "support"})
    (link,) = re.findall(r'value="(http\S+/(?:invite|reset)/[^"]+)"', page.text)
    (row,) = shop.api_server.sql("select id from person_links where email = $1", email)
    assert admin.post(f"{PATH}/withdraw", {"id": row["id"]}).status_code == 303
    assert Visitor(shop.api_server).get(link.removeprefix(shop.api_server.url)).status_code == 404
    members_link = invite(shop.api_server, new_address(), shop.id, "owner").link
    response = admin.post(f"{PATH}/withdraw", {"id": members_link.id})
    assert response.status_code == 404  # only members of the merchant may withdraw it


@pytest.mark.parametrize("change", ["role", "remove"])
async def test_one_of_two_administrators_who_remove_each_other_remains(db: Db, change: str) -> None:
    ids = [new_id("per") for _ in range(2)]
    async with db.transaction() as tx:
        for person_id in ids:
            admin = people.Person(
                id=person_id, email=new_address(), name="A", password="$argon2id$",
                totp_secret=None, totp_pending=None, totp_period=0, created_at=1, updated_at=1,
            )  # fmt: skip
            await queries.INSERT_PERSON.run(tx, admin)
            await queries.SET_STAFF.run(tx, person_id=person_id, role="admin", now=1)

    async def remove_administrator(person_id: str) -> str:
        async def work(tx: Tx) -> None:
            if change == "role":
                await people.change_staff_role(tx, person_id, "support", 2, actor=TESTER)
            else:
                await people.remove_staff(tx, person_id, 2, actor=TESTER)

        try:
            await db.run(work)
        except Invalid as problem:
            return problem.field or ""
        return "done"

    assert sorted(await asyncio.gather(*map(remove_administrator, ids))) == ["done", "role"]
    async with db.connection() as tx:
        staff = await people.colleagues(tx)
    assert [person.role for person in staff].count("admin") == 1
