"""Simplified Chinese sentences of the frame of all pages."""

from typing import Final

SENTENCES: Final[dict[str, str]] = {
    "languages": "语言",
    "skip": "跳到主要内容",
    "test_mode": "测试模式 – 不涉及真实资金",
    "chart_numbers": "显示数字",
    "powered": "由 {name} 提供支持",
    "error_prefix": "错误：{title}",
}
