"""All tests of a process share two browsers and one running deployment.

They run on the event loop of the session, so every test in this folder must run on it, too. Each
test has its own browser context and its own merchant.
"""

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import pytest_asyncio
from playwright.async_api import Browser, async_playwright

from support.alipay_shop import alipay_bank, alipay_shop
from support.page_server import open_session, page_server
from support.paypal_shop import paypal_bank, paypal_shop
from support.wechat_pay_shop import wechat_pay_bank, wechat_pay_shop

# The headless shell has no tabs and toolbars, and takes half the processor time of Chromium.
CHROMIUMS = ("chromium-headless-shell", "chromium")
SWITCHES = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]


@asynccontextmanager
async def _running(*switches: str) -> AsyncIterator[Browser]:
    path = next(filter(None, map(shutil.which, CHROMIUMS)), None)
    if path is None:
        pytest.skip("Chromium is not installed")
    async with async_playwright() as playwright:
        arguments = [*SWITCHES, *switches]
        chromium = await playwright.chromium.launch(executable_path=path, args=arguments)
        yield chromium
        await chromium.close()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    """A headless Chromium."""
    async with _running() as chromium:
        yield chromium


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def layout_browser() -> AsyncIterator[Browser]:
    """A headless Chromium that draws no frames, for tests that load pages and measure them.

    It computes styles and layout when a script asks for them. Drawing would take half of the
    processor time of such a test, because each change of the window's size draws the page again.
    Playwright's clicks wait for frames and do not work.
    """
    async with _running("--enable-begin-frame-control") as chromium:
        yield chromium


__all__ = [
    "alipay_bank",
    "alipay_shop",
    "browser",
    "layout_browser",
    "open_session",
    "page_server",
    "paypal_bank",
    "paypal_shop",
    "wechat_pay_bank",
    "wechat_pay_shop",
]
