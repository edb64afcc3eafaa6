"""The lists of products and payment links are files too, in the part that is shown."""

import csv
import io

from opentill.portal import lists
from support.api_server import Shop
from support.people import Visitor, create_person


def _read_rows(visitor: Visitor, path: str) -> list[dict[str, str]]:
    response = visitor.get(path)
    assert response.status_code == 200
    assert response.headers["content-type"].startswith("text/csv")
    return list(csv.DictReader(io.StringIO(response.content.decode("utf-8-sig"))))


def test_products_are_a_file_of_the_shown_tab_and_search(shop: Shop) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    path = f"/dashboard/{shop.id}/products"
    assert "Download as CSV" not in owner.get(path).text
    names = ["=Tea", *(f"Cup {number}" for number in range(lists.SIZE))]
    ids = {name: shop.create_product(name=name, price="9.90")["id"] for name in names}
    shop.call("DELETE", f"/v1/products/{ids['Cup 0']}")  # archives it
    assert f'href="{path}.csv"' in owner.get(path).text
    rows = _read_rows(owner, f"{path}.csv")
    assert [row["name"] for row in rows] == [
        *(f"Cup {number}" for number in range(lists.SIZE - 1, 0, -1)), "'=Tea",
    ]  # fmt: skip
    last = rows[-1]
    assert (last["id"], last["price"], last["currency"], last["status"], last["payments"]) == (
        ids["=Tea"], "9.90", "USD", "ACTIVE", "0",
    )  # fmt: skip
    assert [row["name"] for row in _read_rows(owner, f"{path}.csv?tab=archived")] == ["Cup 0"]
    assert [row["name"] for row in _read_rows(owner, f"{path}.csv?query=tea")] == ["'=Tea"]


def test_payment_links_are_a_file_with_their_addresses(shop: Shop) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    product = shop.create_product(name="Oolong", price="18.00")
    link = shop.data("POST", "/v1/payment-links", json={"productId": product["id"]})
    path = f"/dashboard/{shop.id}/links"
    assert f'href="{path}.csv"' in owner.get(path).text
    (row,) = _read_rows(owner, f"{path}.csv")
    assert (row["id"], row["url"], row["name"], row["product_id"]) == (
        link["id"], link["url"], "Oolong", product["id"],
    )  # fmt: skip
    assert (row["least_price"], row["most_price"], row["currency"]) == ("18.00", "18.00", "USD")
    assert (row["status"], row["payments"]) == ("ACTIVE", "0")
    assert _read_rows(owner, f"{path}.csv?tab=deactivated") == []
