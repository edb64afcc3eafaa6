"""A server that is killed after it recorded a signature: the shop's repeat does the act once."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

import pytest

from support.api_server import SECRETS
from support.epay_v2_shop import EpayV2Shop

TESTS: Final = Path(__file__).parents[2]
USED: Final = {"code": -3, "msg": "该签名已用于其他接口，请用新的时间戳重新签名"}


def state(v2_shop: EpayV2Shop, number: str, closed: str) -> tuple[int, int, str]:
    """Return how many orders have a number, how many refunds there are, and an order's status."""
    ((orders, status),) = (
        (row["orders"], row["status"])
        for row in v2_shop.api_server.sql(
            "select count(*) filter (where e.out_trade_no = $2) as orders,"
            " max(o.status) filter (where e.out_trade_no = $3) as status"
            " from epay_orders e join orders o on o.merchant_id = e.merchant_id"
            " and o.id = e.order_id where e.merchant_id = $1",
            v2_shop.id, number, closed,
        )
    )  # fmt: skip
    return orders, len(v2_shop.refunds()), status


@pytest.mark.parametrize("moment", ["recorded", "done"])
def test_a_repeat_after_a_kill_acts_once(v2_shop: EpayV2Shop, moment: str) -> None:
    """The refund has no out_refund_no, so that only the request itself identifies it."""
    paid, unpaid = v2_shop.create_paid(), v2_shop.create(device="jump")
    new = v2_shop.submission(device="jump")
    refund = {"trade_no": paid["trade_no"], "money": "1.00"}
    at = int(time.time())
    requests: list[tuple[str, dict[str, Any]]] = [
        ("pay/create", v2_shop.sign_v2(new, timestamp=at)),
        ("pay/refund", v2_shop.sign_v2(refund, timestamp=at)),
        ("pay/close", v2_shop.sign_v2({"trade_no": unpaid["trade_no"]}, timestamp=at)),
    ]
    settings = v2_shop.api_server.settings
    fields = {
        "database_url": settings.database_url, "db_prepared": settings.db_prepared, **SECRETS
    }  # fmt: skip
    script = str(Path(__file__).with_name("killed_server.py"))
    command = [sys.executable, script, json.dumps(fields), moment]
    for path, form in requests:
        command += [path, json.dumps(form)]
    environ = os.environ | {"PYTHONPATH": str(TESTS)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environ) as process:
        assert process.stdout is not None
        for _ in requests:
            assert process.stdout.readline() == f"{moment}\n".encode()
        process.kill()
        assert process.wait() == -signal.SIGKILL

    def now() -> tuple[int, int, str]:
        return state(v2_shop, new["out_trade_no"], unpaid["out_trade_no"])

    done = (1, 1, "CLOSED")
    assert now() == ((0, 0, "PENDING") if moment == "recorded" else done)
    # The signature of the killed request is used: on another path it still changes nothing.
    assert v2_shop.send("pay/submit", requests[0][1]) == USED
    for _ in range(2):
        for path, form in requests:
            assert v2_shop.send(path, form)["code"] == 0, path
        assert now() == done
    # So does a repeat that is signed again, as a shop sends it that waited for minutes.
    for path, form in (("pay/create", new), ("pay/refund", refund)):
        assert v2_shop.send(path, v2_shop.sign_v2(form, timestamp=at - 60))["code"] == 0
    assert now() == done
