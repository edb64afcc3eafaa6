"""A shop that uses Epay V1 (易支付): place an order and wait for the signed notification.

PID=1000 KEY=… python examples/epay_shop.py http://127.0.0.1:8080/epay/
"""

import hashlib
import json
import os
import sys
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from urllib.parse import parse_qsl, urlencode, urlsplit
from urllib.request import urlopen

PID, KEY = os.environ["PID"], os.environ["KEY"]


def sign(params: dict[str, str]) -> str:
    """Return the MD5 of the key after the sorted parameters; empty parameters are left out."""
    signed = sorted(name for name in params if params[name] and name not in ("sign", "sign_type"))
    text = "&".join(f"{name}={params[name]}" for name in signed)
    return hashlib.md5((text + KEY).encode(), usedforsecurity=False).hexdigest()


class Notification(BaseHTTPRequestHandler):
    """Responds with ``success`` to notifications with a valid signature, else with ``fail``."""

    def do_GET(self) -> None:
        """Receive a notification. OpenTill repeats it until the response is ``success``."""
        params = dict(parse_qsl(urlsplit(self.path).query))
        is_signed = params.get("sign") == sign(params)
        accepted = is_signed and params["trade_status"] == "TRADE_SUCCESS"
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"success" if accepted else b"fail")
        if accepted:
            print("paid:", params["out_trade_no"], params["money"], flush=True)


shop = HTTPServer(("127.0.0.1", 0), Notification)
order = {
    "pid": PID,
    "type": "alipay",
    "out_trade_no": f"cart-{time.time_ns()}",
    "notify_url": f"http://127.0.0.1:{shop.server_port}/paid",
    "name": "VIP会员",
    "money": "10.50",
    "clientip": "203.0.113.7",
}
order |= {"sign": sign(order), "sign_type": "MD5"}
with urlopen(f"{sys.argv[1]}mapi.php", urlencode(order).encode()) as response:
    placed = json.load(response)
print("pay at", placed.get("payurl", placed), flush=True)
shop.handle_request()
