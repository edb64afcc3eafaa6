"""Generate ``opentill/client/blocking.py`` from ``asynchronous.py``: `make client`.

The blocking client is the same code without ``async`` and ``await``, as in httpcore. A test
compares the file in the repository with the output of this program.
"""

import re
import subprocess
import sys
from pathlib import Path
from typing import Final

CLIENT: Final = Path(__file__).parents[1] / "src" / "opentill" / "client"
SOURCE: Final = CLIENT / "asynchronous.py"
TARGET: Final = CLIENT / "blocking.py"
HEAD: Final = '''"""``Client``: the API for programs without asyncio.

Generated from ``asynchronous.py`` by `make client`: change that file, not this one. Fields and
filters are in ``operations.py``.
"""
'''
# The order of these replacements matters, because later patterns match the results of earlier ones.
SUBSTITUTIONS: Final = (
    (r'\A""".*?"""\n', HEAD),
    (r"For one event loop", "Safe to share between threads"),
    (r"Coroutine\[Any, Any, T\]", "T"),
    (r"await asyncio\.to_thread\(target\.write, chunk\)", "target.write(chunk)"),
    (r"asyncio\.sleep", "time.sleep"),
    (r"^import asyncio$", "import time"),
    (r"\basync (?=def|for|with)|\bawait ", ""),
    (r"\bAsync(?=[A-Z])", ""),
    (r"__a(?=enter__|exit__|iter__)", "__"),
    (r"\ba(?=iter_bytes|close\b)", ""),
    (r"``async with``", "``with``"),
)


def to_blocking(source: str) -> str:
    """Return the source of the blocking client."""
    for pattern, replacement in SUBSTITUTIONS:
        source = re.sub(pattern, replacement, source, flags=re.MULTILINE | re.DOTALL)
    for arguments in (["check", "--fix", "--quiet", "--select", "F401,I"], ["format"]):
        ruff = [sys.executable, "-m", "ruff", *arguments, "--stdin-filename", str(TARGET), "-"]
        source = subprocess.run(  # noqa: S603 - the formatter, run on our own source
            ruff, input=source, capture_output=True, text=True, check=True
        ).stdout
    return source


if __name__ == "__main__":
    TARGET.write_text(to_blocking(SOURCE.read_text()))
