"""How requests of the API come in and responses go out.

The table of operations, the checks in their order, the OpenAPI document, the middleware, strict
JSON, idempotency, pages of lists, files.
"""
