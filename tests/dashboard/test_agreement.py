"""The page of the agreement: an owner accepts it, and payments are blocked until then."""

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

import httpx2
import msgspec
import pytest

from opentill import agreement
from opentill.people import MERCHANT_ROLES
from support.api_server import ApiServer, Shop
from support.epay_shop import EpayShop, Inbox
from support.people import PASSWORD, Visitor, create_person, heading_of


@contextlib.contextmanager
def changed_settings(api_server: ApiServer, **changes: object) -> Iterator[None]:
    """Change settings of the server until the block ends."""
    former_settings = api_server.app.settings
    api_server.app.settings = msgspec.structs.replace(former_settings, **changes)
    try:
        yield
    finally:
        api_server.app.settings = former_settings


def write_new_version(folder: Path) -> Path:
    """Write version 1.1 of the agreement into a folder; return the folder."""
    shipped = Path(str(agreement.__file__)).with_name("1.0.md").read_text()
    text = shipped.replace("## 1. Words used", "## 1. Words used differently")
    assert text != shipped
    (folder / "1.1.md").write_text(text)
    return folder


def read_page(visitor: Visitor, shop: Shop) -> str:
    response = visitor.get(f"/dashboard/{shop.id}/agreement")
    assert response.status_code == 200
    return response.text


def form_fields(page: str) -> dict[str, str]:
    return dict(re.findall(r'<input type="hidden" name="(digest)" value="(\w+)"', page))


def acceptance_rows(shop: Shop) -> list[dict[str, object]]:
    sql = "select * from agreement_acceptances where merchant_id = $1 order by accepted_at"
    return shop.api_server.sql(sql, shop.id)


def accept(visitor: Visitor, shop: Shop, form: dict[str, str]) -> httpx2.Response:
    return visitor.post(f"/dashboard/{shop.id}/agreement/accept", form | {"accepted": "yes"})


def test_members_see_who_accepted_the_agreement_and_when(shop: Shop) -> None:
    ada, viewer = (create_person(shop.api_server, shop.id, role) for role in ("owner", "viewer"))
    current = agreement.current(shop.api_server.settings)
    page = read_page(ada, shop)
    assert "The agreement is not accepted yet" in page
    assert (
        '<h3 id="section-1">1. Words used</h3>' in page
    )  # one level below the headings of the page
    for digest in (current.rendered_document_sha256, current.template_sha256):
        assert f"<code>{digest}</code>" in page
    assert "<form" not in read_page(viewer, shop).split('id="text"')[1].split("</main>")[0]

    unticked = ada.post(f"/dashboard/{shop.id}/agreement/accept", form_fields(page))
    assert unticked.status_code == 400
    assert "Tick the box" in unticked.text
    assert acceptance_rows(shop) == []

    for _ in range(2):  # a double click submits the form twice
        response = accept(ada, shop, form_fields(page))
        assert (response.status_code, response.headers["location"]) == (
            303, f"/dashboard/{shop.id}/agreement",
        )  # fmt: skip
    (row,) = acceptance_rows(shop)
    assert row["document_sha256"] == current.rendered_document_sha256
    for visitor in (ada, viewer):
        page = read_page(visitor, shop)
        assert "Version 1.0 is accepted" in page
        assert ada.email in page
        assert '<bdi>Testfox/1.0</bdi><br><span class="small">127.0.0.1</span>' in page
        assert 'name="digest"' not in page
    select_actions = "select action from audit_log where merchant_id = $1 and who like $2"
    actions = [
        line["action"] for line in shop.api_server.sql(select_actions, shop.id, f"{ada.email}%")
    ]
    assert actions.count("agreement accept") == 1


def test_an_agreement_that_changed_after_the_page_was_opened_is_not_accepted(
    shop: Shop, tmp_path: Path
) -> None:
    ada = create_person(shop.api_server, shop.id, "owner")
    form = form_fields(read_page(ada, shop))
    with changed_settings(shop.api_server, agreement_dir=write_new_version(tmp_path)):
        refusal = accept(ada, shop, form)
        assert refusal.status_code == 409
        assert "The agreement has changed since you opened this page" in refusal.text
        assert "Words used differently" in refusal.text
        assert acceptance_rows(shop) == []
        assert accept(ada, shop, form_fields(refusal.text)).status_code == 303
    assert [row["agreement_version"] for row in acceptance_rows(shop)] == ["1.1"]


def test_a_new_version_must_be_accepted_too_and_the_earlier_one_is_listed(
    shop: Shop, tmp_path: Path
) -> None:
    ada = create_person(shop.api_server, shop.id, "owner")
    accept(ada, shop, form_fields(read_page(ada, shop)))
    earlier_acceptances = acceptance_rows(shop)
    with changed_settings(shop.api_server, agreement_dir=write_new_version(tmp_path)):
        assert "Version 1.1 is new, and is not accepted yet" in read_page(ada, shop)
        accept(ada, shop, form_fields(read_page(ada, shop)))
        page = read_page(ada, shop)
    assert "Version 1.0 is accepted" in page.split('id="earlier"')[1]
    assert "Version 1.1 is accepted" in page
    assert acceptance_rows(shop)[:1] == earlier_acceptances


def test_accepting_the_agreement_needs_a_step_up(shop: Shop) -> None:
    ada = create_person(shop.api_server, shop.id, "owner")
    form = form_fields(read_page(ada, shop))
    shop.api_server.tx(
        lambda tx: tx.execute("update logins set proved_at = 0 where person_id = $1", ada.person_id)
    )
    proof = accept(ada, shop, form)
    assert heading_of(proof) == "Confirm that it is you"
    assert "Accept the merchant services agreement" in proof.text
    assert f'href="/dashboard/{shop.id}/agreement">Cancel' in proof.text
    assert acceptance_rows(shop) == []
    assert accept(ada, shop, form | {"proof_password": PASSWORD}).status_code == 303
    assert len(acceptance_rows(shop)) == 1


@pytest.mark.parametrize("role", MERCHANT_ROLES[1:])
def test_only_an_owner_can_accept(shop: Shop, role: str) -> None:
    member = create_person(shop.api_server, shop.id, role)  # type: ignore[arg-type]
    assert "An owner of the team can accept it" in read_page(member, shop)
    digest = agreement.current(shop.api_server.settings).rendered_document_sha256
    assert accept(member, shop, {"digest": digest}).status_code == 403
    assert acceptance_rows(shop) == []


def test_a_required_agreement_blocks_payments_until_it_is_accepted(
    shop: Shop, tmp_path: Path
) -> None:
    ada, product = create_person(shop.api_server, shop.id, "owner"), shop.create_product()["id"]
    with changed_settings(shop.api_server, agreement_required=True):
        refusal = shop.post("/v1/checkouts", {"productId": product})
        assert refusal.status_code == 403
        body = refusal.json()
        assert (body["code"], body["message"]) == (40301, "Not permitted")
        assert body["error"]["field"] == "agreement"
        assert "must be accepted" in body["error"]["reason"]
        assert "Until it is accepted you cannot take payments" in read_page(ada, shop)
        accept(ada, shop, form_fields(read_page(ada, shop)))
        assert shop.post("/v1/checkouts", {"productId": product}).status_code == 201
        other_shop = shop.api_server.create_shop()  # this merchant has not accepted the agreement
        other_product = other_shop.create_product()["id"]
        assert other_shop.post("/v1/checkouts", {"productId": other_product}).status_code == 403
    folder = write_new_version(tmp_path)
    with changed_settings(shop.api_server, agreement_required=True, agreement_dir=folder):
        assert shop.post("/v1/checkouts", {"productId": product}).status_code == 201
        assert "cannot take payments" not in read_page(ada, shop)


def test_the_epay_api_reports_a_missing_agreement_in_its_own_format(api_server: ApiServer) -> None:
    with contextlib.closing(Inbox()) as inbox:
        shop = EpayShop(api_server, inbox)
        with changed_settings(api_server, agreement_required=True):
            body = shop.mapi(out_trade_no="A-1", money_type="USD")
        assert body["code"] == -1
        assert "商户服务协议" in body["msg"]
        assert shop.mapi(out_trade_no="A-1", money_type="USD")["code"] == 1
