"""Makes ``opentill/client/blocking.py`` of ``asynchronous.py``: `make client`.

The same code without ``async`` and ``await``, as httpcore and others make theirs. A test compares
the file in the repository with what is made here.
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

Made of ``asynchronous.py`` by `make client`: change that file, not this one. Fields and filters
stand in ``operations.py``; they change neither.
"""
'''
# In this order.
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


def blocking(source: str) -> str:
    """Return the blocking client's program text."""
    for pattern, replacement in SUBSTITUTIONS:
        source = re.sub(pattern, replacement, source, flags=re.MULTILINE | re.DOTALL)
    for arguments in (["check", "--fix", "--quiet", "--select", "F401,I"], ["format"]):
        ruff = [sys.executable, "-m", "ruff", *arguments, "--stdin-filename", str(TARGET), "-"]
        source = subprocess.run(  # noqa: S603 - the formatter, on our own text
            ruff, input=source, capture_output=True, text=True, check=True
        ).stdout
    return source


if __name__ == "__main__":
    TARGET.write_text(blocking(SOURCE.read_text()))
