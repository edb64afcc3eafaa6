"""The peer: three operations with FastAPI, pydantic and SQLAlchemy, as most teams would write them.

Open a session, read an order, confirm a payment (signature, order, history, ledger entries with
running balances). It accepts the same requests as OpenTill and returns the same fields. Its tables
are copies of OpenTill's in a schema ``plain``. It has no limits, idempotency, events or log.
Uvicorn runs it with uvloop and httptools, in an environment of its own (``requirements.lock``)::

    export PLAIN_URL=postgresql+asyncpg://… PLAIN_SECRET=…
    uvicorn --app-dir benchmarks/peers plain.operations:app
"""
