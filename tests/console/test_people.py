"""The staff in the console: invited, given roles, logged out, removed, never the last admin."""

import asyncio
import re

import pytest

from opentill import people
from opentill.core.errors import Invalid
from opentill.core.ids import new_id
from opentill.db.clock import now_ms
from opentill.db.database import Db
from opentill.people import queries
from support.api_server import Shop
from support.people import PASSWORD, TESTER, Visitor, address, person

PLACE = "/console/people"


def test_an_administrator_invites_changes_logs_out_and_removes(shop: Shop) -> None:
    admin, email = person(shop.api_server, None, staff_role="admin"), address()
    made = admin.post(f"{PLACE}/invite", {"email": email, "role": "finance"})
    (link,) = re.findall(r"<code>(http\S+)</code>", made.text)
    assert link not in admin.get(PLACE).text  # shown once
    bob = Visitor(shop.api_server, email)
    joined = bob.post(link.removeprefix(shop.api_server.url), {"name": "Bob", "password": PASSWORD})
    assert joined.headers["location"] == "/console"
    assert bob.get("/console").status_code == 200
    again = admin.post(f"{PLACE}/invite", {"email": email, "role": "finance"})
    assert "This person is staff already" in again.text

    (found,) = shop.api_server.sql("select id from persons where email = $1", email)
    one = f"{PLACE}/{found['id']}"
    assert "Testfox" in admin.get(one).text
    assert bob.get(PLACE).status_code == 403  # finance
    assert admin.post(f"{one}/role", {"role": "boss"}).status_code == 400
    assert admin.post(f"{one}/role", {"role": "auditor"}).status_code == 303
    assert bob.get(PLACE).status_code == 200
    assert bob.post(f"{one}/role", {"role": "admin"}).status_code == 403
    assert admin.post(f"{one}/logout").status_code == 303
    assert bob.get(PLACE).headers["location"].startswith("/login")
    bob.log_in()
    assert admin.post(f"{one}/remove").status_code == 303
    assert bob.get(PLACE).status_code == 404
    assert admin.get(one).status_code == 404
    rows = shop.api_server.sql(
        "select action from audit_log where who = $1 order by number",
        f"{admin.email} ({admin.person_id})",
    )
    did = [row["action"] for row in rows]
    assert did[-4:] == ["people invite", "people role", "people logout", "people remove"]


def test_an_invitation_to_the_staff_is_withdrawn(shop: Shop) -> None:
    admin, email = person(shop.api_server, None, staff_role="admin"), address()
    made = admin.post(f"{PLACE}/invite", {"email": email, "role": "support"})
    (link,) = re.findall(r"<code>(http\S+)</code>", made.text)
    sql = "select id from person_links where email = $1"
    (row,) = shop.api_server.sql(sql, email)
    assert admin.post(f"{PLACE}/withdraw", {"id": row["id"]}).status_code == 303
    assert Visitor(shop.api_server).get(link.removeprefix(shop.api_server.url)).status_code == 404
    of_merchant = people.invite
    made_for_shop = shop.api_server.tx(
        lambda tx: of_merchant(
            tx, address(), now_ms(), merchant_id=shop.id, role="owner", actor=TESTER
        )
    )
    answer = admin.post(f"{PLACE}/withdraw", {"id": made_for_shop.link.id})
    assert answer.status_code == 404  # that is the merchant's


@pytest.mark.parametrize("kind", ["role", "remove"])
async def test_of_two_administrators_who_end_each_other_one_stays(db: Db, kind: str) -> None:
    ids = [new_id("per") for _ in range(2)]
    async with db.transaction() as tx:
        for person_id in ids:
            made = people.Person(
                id=person_id, email=address(), name="A", password="$argon2id$", totp_secret=None,
                totp_pending=None, totp_period=0, created_at=1, updated_at=1,
            )  # fmt: skip
            await queries.INSERT_PERSON.run(tx, made)
            await queries.SET_STAFF.run(tx, person_id=person_id, role="admin", now=1)

    async def end(person_id: str) -> str:
        async def work(tx: people.staff.Tx) -> None:
            if kind == "role":
                await people.change_staff_role(tx, person_id, "support", 2, actor=TESTER)
            else:
                await people.remove_staff(tx, person_id, 2, actor=TESTER)

        try:
            await db.run(work)
        except Invalid as problem:
            return problem.field or ""
        return "done"

    assert sorted(await asyncio.gather(*map(end, ids))) == ["done", "role"]
    async with db.connection() as tx:
        staff = await people.colleagues(tx)
    assert [one.role for one in staff].count("admin") == 1
