"""The Epay V2 API: V1's orders, signed by RSA keys, with a refund query and ``close``."""
