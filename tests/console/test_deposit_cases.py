"""Token transfers that need attention are listed in the console until staff have handled them."""

from functools import partial

from console.console_pages import hidden_fields, visible_text
from opentill import deposits, orders
from opentill.core.ids import new_id
from support.api_server import Shop
from support.people import create_person

PATH = "/console/needs/deposits"
ADDRESS, TOKEN, TRANSACTION = f"0x{'ab' * 20}", f"0x{'cd' * 20}", f"0x{'ef' * 32}"


def test_a_transfer_is_listed_until_it_is_handled(shop: Shop) -> None:
    server, agent = shop.api_server, create_person(shop.api_server, None, staff_role="finance")
    order_id = shop.create_paid_order()["id"]
    order = server.tx(partial(orders.find, merchant_id=shop.id, order_id=order_id))
    case_id, now = new_id("dpc"), server.app.clock()
    server.sql("insert into deposit_keys (key_id, next_number) values ($1, 1)", "0" * 32)
    server.sql(
        "insert into deposit_addresses (address, account, chain_id, key_id, number, attempt_id,"
        " amount_minor, currency, due, monitored_until, reserved_at)"
        " values ($1, 'evm', 1, $2, 0, $3, 999, 'USD', 1, 0, 0)",
        ADDRESS, "0" * 32, order.paid_attempt_id,
    )  # fmt: skip
    server.sql(
        "insert into deposit_cases (id, kind, account, attempt_id, address, transaction,"
        " log_index, token, units, opened_at)"
        " values ($1, 'UNKNOWN_TOKEN', 'evm', $2, $3, $4, 0, $5, 7, $6)",
        case_id, order.paid_attempt_id, ADDRESS, TRANSACTION, TOKEN, now,
    )  # fmt: skip
    page = agent.get(PATH)
    assert page.status_code == 200
    assert f"/console/payments/{order_id}" in page.text
    assert "A token that the account does not take" in visible_text(page.text)
    assert "Token transfers that need attention: 1" in visible_text(agent.get("/console").text)
    form = {"case": case_id, "reason": "ignored, the token is worthless"}
    support = create_person(server, None, staff_role="auditor")
    assert support.post(PATH, form).status_code == 403
    for reason in (" ", "x" * 401):
        refusal = agent.post(PATH, form | {"reason": reason})
        assert (refusal.status_code, 'id="reason-error"' in refusal.text) == (400, True)
    form_id = hidden_fields(page.text)["form_id"]
    for _ in range(2):  # sent twice, it has one effect
        response = agent.post(PATH, form | {"form_id": form_id})
        assert response.headers["location"] == f"{PATH}?done=1"
    assert order_id not in agent.get(PATH).text
    refusal = agent.post(PATH, form)
    assert refusal.status_code == 409
    assert "Somebody else has handled this transfer meanwhile." in visible_text(refusal.text)
    (case,) = server.tx(lambda tx: deposits.cases_of_attempts(tx, [order.paid_attempt_id or ""]))
    assert (case.closed_by, case.resolution) == (agent.audit_name, form["reason"])
    rows = server.sql("select action, who from audit_log where subject = $1", case_id)
    assert [tuple(row.values()) for row in rows] == [("deposits handled", agent.audit_name)]
