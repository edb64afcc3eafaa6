"""The process that serves: uvicorn with a stricter protocol, connection limits, the supervisor."""
