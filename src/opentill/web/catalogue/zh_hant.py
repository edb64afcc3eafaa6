"""Traditional Chinese sentences of the frame of all pages."""

from typing import Final

SENTENCES: Final[dict[str, str]] = {
    "languages": "語言",
    "skip": "跳到主要內容",
    "test_mode": "測試模式 – 不涉及真實款項",
    "chart_numbers": "顯示數字",
    "powered": "由 {name} 提供支援",
    "error_prefix": "錯誤：{title}",
}
