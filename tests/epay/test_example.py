"""The shop of ``examples/epay_shop.py`` is notified of its paid order by a real server."""

from client.test_examples import read_line, run_example
from support.epay_shop import EpayShop


def test_the_example_shop_is_notified_of_its_paid_order(epay_shop: EpayShop) -> None:
    url = f"{epay_shop.api_server.url}/epay/"
    with run_example("epay_shop.py", url, PID=epay_shop.pid, KEY=epay_shop.key) as process:
        first_line = read_line(process)
        assert first_line.startswith("pay at http"), first_line
        session_id = first_line.rpartition("/")[2].strip()
        order_id = epay_shop.shop.data("GET", f"/v1/checkouts/{session_id}")["orderId"]
        epay_shop.shop.confirm(order_id)
        epay_shop.send_notices()
        output_line = read_line(process)
        # Skip lines about other requests.
        while output_line and not output_line.startswith("paid: "):
            output_line = read_line(process)
        assert output_line.strip().endswith(" 10.50"), output_line
        assert process.wait(timeout=30) == 0
