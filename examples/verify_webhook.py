"""Receive webhooks with the standard library alone, and verify that each is genuine.

SECRET=whsec_… python examples/verify_webhook.py 3000
"""

import hashlib
import hmac
import json
import os
import sys
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

SECRET = os.environ["SECRET"].encode()
TOLERANCE_S = 300


def is_genuine(timestamp_ms: str, signature: str, old: str, body: bytes) -> bool:
    """Return whether a signature is of this body, by our secret, and not older than five minutes.

    ``old`` are those by the secrets before, for 24 hours after a rotation, with spaces between.
    """
    signed = hmac.new(SECRET, timestamp_ms.encode() + b"." + body, hashlib.sha256).hexdigest()
    ours = f"sha256={signed}".encode()
    same = any(hmac.compare_digest(ours, one.encode()) for one in [signature, *old.split(" ")])
    return same and abs(time.time() - int(timestamp_ms) / 1000) < TOLERANCE_S


class Webhook(BaseHTTPRequestHandler):
    """Responds 204 to a genuine event, and 400 to anything else."""

    def do_POST(self) -> None:
        """Take one event. It may come again: a shop stores the ids that it has seen."""
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        names = ("Timestamp", "Signature", "Signature-Old")
        genuine = is_genuine(*(self.headers.get(f"X-Svc-{name}", "") for name in names), body)
        if genuine:
            event = json.loads(body)
            print(event["type"], event["id"], event["data"], flush=True)
        self.send_response(204 if genuine else 400)
        self.end_headers()


server = HTTPServer(("127.0.0.1", int(sys.argv[1])), Webhook)
print(f"listening on port {server.server_port}", flush=True)
server.serve_forever()
