"""English sentences of the frame of all pages."""

from typing import Final

SENTENCES: Final[dict[str, str]] = {
    "languages": "Language",
    "skip": "Skip to the main part",
    "test_mode": "Test mode – no real money",
    "chart_numbers": "Show the numbers",
    "powered": "Powered by {name}",
    "error_prefix": "Error: {title}",
}
