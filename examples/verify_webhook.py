"""Receive webhooks and verify their signatures, with Python's standard library alone.

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


def is_genuine(timestamp_ms: str, signature: str, old_signatures: str, body: bytes) -> bool:
    """Return whether the body was signed with our secret within the last five minutes.

    For 24 hours after a rotation, deliveries also have signatures made with the previous secrets.
    ``old_signatures`` contains them, separated by spaces.
    """
    signed = hmac.new(SECRET, timestamp_ms.encode() + b"." + body, hashlib.sha256).hexdigest()
    expected = f"sha256={signed}".encode()
    signatures = [signature, *old_signatures.split(" ")]
    is_signed = any(hmac.compare_digest(expected, text.encode()) for text in signatures)
    return is_signed and abs(time.time() - int(timestamp_ms) / 1000) < TOLERANCE_S


class Webhook(BaseHTTPRequestHandler):
    """Responds with 204 to genuine events and with 400 to everything else."""

    def do_POST(self) -> None:
        """Receive an event. A real shop stores its id, because events can arrive twice."""
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        names = ("Timestamp", "Signature", "Signature-Old")
        accepted = is_genuine(*(self.headers.get(f"X-Svc-{name}", "") for name in names), body)
        if accepted:
            event = json.loads(body)
            print(event["type"], event["id"], event["data"], flush=True)
        self.send_response(204 if accepted else 400)
        self.end_headers()


server = HTTPServer(("127.0.0.1", int(sys.argv[1])), Webhook)
print(f"listening on port {server.server_port}", flush=True)
server.serve_forever()
