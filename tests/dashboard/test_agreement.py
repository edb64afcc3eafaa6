"""The page of the agreement: read, accepted once by an owner; and what stops without it."""

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from opentill import agreement
from opentill.people import MERCHANT_ROLES
from support.api_server import ApiServer, Shop
from support.epay_shop import EpayShop, Inbox
from support.people import PASSWORD, Visitor, person, title


@contextlib.contextmanager
def settings(api_server: ApiServer, **changes: object) -> Iterator[None]:
    """Have the server run with other settings for a while."""
    before = api_server.app.settings
    api_server.app.settings = msgspec.structs.replace(before, **changes)
    try:
        yield
    finally:
        api_server.app.settings = before


def newer(folder: Path, version: str = "1.1") -> Path:
    """Return a folder with a newer version of the agreement."""
    shipped = Path(str(agreement.__file__)).with_name("1.0.md").read_text()
    text = shipped.replace("## 1. Words used", "## 1. Words used differently")
    assert text != shipped
    (folder / f"{version}.md").write_text(text)
    return folder


def page_of(visitor: Visitor, shop: Shop) -> str:
    response = visitor.get(f"/dashboard/{shop.id}/agreement")
    assert response.status_code == 200
    return response.text


def form_of(page: str) -> dict[str, str]:
    return dict(re.findall(r'<input type="hidden" name="(digest)" value="(\w+)"', page))


def rows(shop: Shop) -> list[dict[str, object]]:
    sql = "select * from agreement_acceptances where merchant_id = $1 order by accepted_at"
    return shop.api_server.sql(sql, shop.id)


def accept(visitor: Visitor, shop: Shop, form: dict[str, str]) -> object:
    return visitor.post(f"/dashboard/{shop.id}/agreement/accept", form | {"accepted": "yes"})


def test_an_owner_reads_and_accepts_and_everybody_sees_who_and_when(shop: Shop) -> None:
    ada, viewer = (person(shop.api_server, shop.id, role) for role in ("owner", "viewer"))
    current = agreement.current(shop.api_server.settings)
    page = page_of(ada, shop)
    assert "The agreement is not accepted yet" in page
    assert "<h3>1. Words used</h3>" in page  # the whole text, below the page's own headings
    for digest in (current.rendered_document_sha256, current.template_sha256):
        assert f"<code>{digest}</code>" in page
    assert "<form" not in page_of(viewer, shop).split('id="text"')[1].split("</main>")[0]

    unread = ada.post(f"/dashboard/{shop.id}/agreement/accept", form_of(page))
    assert unread.status_code == 400
    assert "Tick the box" in unread.text
    assert rows(shop) == []

    for _ in range(2):  # a double click
        answer = accept(ada, shop, form_of(page))
        assert (answer.status_code, answer.headers["location"]) == (
            303, f"/dashboard/{shop.id}/agreement",
        )  # fmt: skip
    (row,) = rows(shop)
    assert row["document_sha256"] == current.rendered_document_sha256
    for visitor in (ada, viewer):
        page = page_of(visitor, shop)
        assert "Version 1.0 is accepted" in page
        assert ada.email in page
        assert "127.0.0.1 · <bdi>Testfox/1.0</bdi>" in page
        assert 'name="digest"' not in page
    audit = "select action from audit_log where merchant_id = $1 and who like $2"
    actions = [one["action"] for one in shop.api_server.sql(audit, shop.id, f"{ada.email}%")]
    assert actions.count("agreement accept") == 1


def test_a_text_that_changed_between_showing_and_accepting_is_refused(
    shop: Shop, tmp_path: Path
) -> None:
    ada = person(shop.api_server, shop.id, "owner")
    form = form_of(page_of(ada, shop))
    with settings(shop.api_server, agreement_dir=newer(tmp_path)):
        refused = accept(ada, shop, form)
        assert refused.status_code == 409
        assert "The agreement has changed since you opened this page" in refused.text
        assert "Words used differently" in refused.text
        assert rows(shop) == []
        assert accept(ada, shop, form_of(refused.text)).status_code == 303
    assert [row["agreement_version"] for row in rows(shop)] == ["1.1"]


def test_a_new_version_asks_anew_and_shows_the_earlier_one(shop: Shop, tmp_path: Path) -> None:
    ada = person(shop.api_server, shop.id, "owner")
    accept(ada, shop, form_of(page_of(ada, shop)))
    first = rows(shop)
    with settings(shop.api_server, agreement_dir=newer(tmp_path)):
        assert "Version 1.1 is new, and is not accepted yet" in page_of(ada, shop)
        accept(ada, shop, form_of(page_of(ada, shop)))
        page = page_of(ada, shop)
    assert "Version 1.0 is accepted" in page.split('id="earlier"')[1]
    assert "Version 1.1 is accepted" in page
    assert rows(shop)[:1] == first


def test_accepting_asks_for_the_password_again_and_goes_on(shop: Shop) -> None:
    ada = person(shop.api_server, shop.id, "owner")
    form = form_of(page_of(ada, shop))
    shop.api_server.tx(
        lambda tx: tx.execute("update logins set proved_at = 0 where person_id = $1", ada.person_id)
    )
    asked = accept(ada, shop, form)
    assert title(asked) == "Please confirm that it is you"
    assert rows(shop) == []
    assert accept(ada, shop, form | {"proof_password": PASSWORD}).status_code == 303
    assert len(rows(shop)) == 1


@pytest.mark.parametrize("role", MERCHANT_ROLES[1:])
def test_only_an_owner_accepts(shop: Shop, role: str) -> None:
    member = person(shop.api_server, shop.id, role)  # type: ignore[arg-type]
    assert "An owner of the team can accept it" in page_of(member, shop)
    digest = agreement.current(shop.api_server.settings).rendered_document_sha256
    assert accept(member, shop, {"digest": digest}).status_code == 403
    assert rows(shop) == []


def test_where_it_is_required_nobody_takes_payments_without_it(shop: Shop, tmp_path: Path) -> None:
    ada, product = person(shop.api_server, shop.id, "owner"), shop.product()["id"]
    with settings(shop.api_server, agreement_required=True):
        refused = shop.post("/v1/checkouts", {"productId": product})
        assert refused.status_code == 403
        body = refused.json()
        assert (body["code"], body["message"]) == (40301, "Not permitted")
        assert body["error"]["field"] == "agreement"
        assert "must be accepted" in body["error"]["reason"]
        assert "Until it is accepted you cannot take payments" in page_of(ada, shop)
        accept(ada, shop, form_of(page_of(ada, shop)))
        assert shop.post("/v1/checkouts", {"productId": product}).status_code == 201
        other = shop.api_server.shop()  # whose own it is not
        theirs = other.product()["id"]
        assert other.post("/v1/checkouts", {"productId": theirs}).status_code == 403
    newest = newer(tmp_path)
    with settings(shop.api_server, agreement_required=True, agreement_dir=newest):
        assert shop.post("/v1/checkouts", {"productId": product}).status_code == 201
        assert "cannot take payments" not in page_of(ada, shop)


def test_epay_says_so_in_its_own_form(api_server: ApiServer) -> None:
    with contextlib.closing(Inbox()) as inbox:
        shop = EpayShop(api_server, inbox)
        with settings(api_server, agreement_required=True):
            answer = shop.mapi(out_trade_no="A-1", money_type="USD")
        assert answer["code"] == -1
        assert "商户服务协议" in answer["msg"]
        assert shop.mapi(out_trade_no="A-1", money_type="USD")["code"] == 1
