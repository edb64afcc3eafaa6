"""``examples/epay_shop.py`` against a real server: it is notified of its paid order."""

from client.test_examples import line, running
from support.epay_shop import EpayShop


def test_a_shop_in_one_file_is_paid(epay_shop: EpayShop) -> None:
    url = f"{epay_shop.api_server.url}/epay/"
    with running("epay_shop.py", url, PID=epay_shop.pid, KEY=epay_shop.key) as process:
        first_line = line(process)
        assert first_line.startswith("pay at http"), first_line
        session_id = first_line.rpartition("/")[2].strip()
        order_id = epay_shop.shop.data("GET", f"/v1/checkouts/{session_id}")["orderId"]
        epay_shop.shop.confirm(order_id)
        epay_shop.send_notices()
        rest = line(process)
        while rest and not rest.startswith("paid: "):  # the server logs each request
            rest = line(process)
        assert rest.strip().endswith(" 10.50"), rest
        assert process.wait(timeout=30) == 0
