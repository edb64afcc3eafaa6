"""The peer: three operations with FastAPI, pydantic and SQLAlchemy, as most teams would write them.

Open a session, read an order, confirm a payment (signature, order, history, ledger entries with
running balances). It takes the very requests that OpenTill takes and gives the same fields,
over tables like OpenTill's own in a schema ``plain``. It has none of the rest: no limits, no
idempotency, no events, no log. Run by uvicorn with uvloop and httptools, in an environment of its
own (``requirements.lock``)::

    export PLAIN_URL=postgresql+asyncpg://… PLAIN_SECRET=…
    uvicorn --app-dir benchmarks/peers plain.operations:app
"""
