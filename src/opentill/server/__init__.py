"""The server process: uvicorn with a stricter protocol, connection limits and a supervisor."""
