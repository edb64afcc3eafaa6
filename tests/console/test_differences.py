"""Staff resolve a difference between a settlement report and the books."""

import re
import secrets

import pytest

from support.api_server import Shop
from support.people import create_person


def _insert_difference(shop: Shop, merchant_id: str) -> str:
    """Insert a difference of a merchant, "" for none; return the path of its page."""
    number = secrets.token_hex(13)
    shop.api_server.sql(
        "insert into reconciliation_files (id, source, sha256, name, status, rows, matched, found,"
        " who, created_at) values ($1, 'sandbox', $2, 'a.csv', 'OPEN', 1, 0, 1, 'ann', 1)",
        f"rec_{number}", secrets.token_hex(32),
    )  # fmt: skip
    shop.api_server.sql(
        "insert into reconciliation_differences (id, file_id, source, what, kind, reference,"
        " merchant_id, ours, theirs, created_at) values ($1, $2, 'sandbox', 'different',"
        " 'payment', $3, $4, '9.99 USD', '7.00 USD', 1)",
        f"dif_{number}", f"rec_{number}", f"att_{number}", merchant_id,
    )  # fmt: skip
    return f"/console/reconciliation/dif_{number}"


@pytest.mark.parametrize("has_merchant", [True, False])
def test_the_form_of_a_difference_asks_for_a_merchant_only_if_it_has_none(
    shop: Shop, has_merchant: bool
) -> None:
    """A browser sends the fields that the form has, and no others."""
    finance = create_person(shop.api_server, None, staff_role="finance")
    path = _insert_difference(shop, shop.id if has_merchant else "")
    form = re.findall(
        rf'<form[^>]*action="[^"]*{path}/resolve".*?</form>', finance.get(path).text, re.DOTALL
    )
    fields = dict.fromkeys(re.findall(r'name="(\w+)"', form[0]), "")
    assert ("merchant" in fields) != has_merchant
    filled = fields | {"reason": "paid by a transfer", "adjust": "recharge", "amount": "2.99"}
    if not has_merchant:
        refusal = finance.post(f"{path}/resolve", filled, complete=False)
        assert (refusal.status_code, 'id="merchant-error"' in refusal.text) == (400, True)
        filled["merchant"] = shop.id
    response = finance.post(f"{path}/resolve", filled, complete=False)
    assert response.headers.get("location", "").endswith("/console/reconciliation?done=1")
    (difference,) = shop.api_server.sql(
        "select resolution, merchant_id from reconciliation_differences where id = $1",
        path.rpartition("/")[2],
    )
    assert difference["resolution"] == "paid by a transfer"
    assert shop.api_server.sql(
        "select available from balances where merchant_id = $1", shop.id
    ) == [{"available": 299}]
