"""Browsers are shown by name and operating system."""

import pytest

from opentill.web.user_agents import describe

ENGINE = "AppleWebKit/537.36 (KHTML, like Gecko)"


@pytest.mark.parametrize(
    ("user_agent", "name"),
    [
        ("Mozilla/5.0 (X11; Linux x86_64) Gecko/20100101 Firefox/140.0", "Firefox, Linux"),
        (f"Mozilla/5.0 (Windows NT) {ENGINE} Chrome/140 Safari/537 Edg/140", "Edge, Windows"),
        (f"Mozilla/5.0 (iPhone; like Mac OS X) {ENGINE} Safari/604", "Safari, iPhone"),
        (f"Mozilla/5.0 (Linux; Android 15) {ENGINE} Chrome/140 Safari/537", "Chrome, Android"),
        ("curl/8.9", "curl"),
        ("my-till 2.0", "my-till 2.0"),
        ("", ""),
    ],
)
def test_a_browser_is_shown_by_name_and_system(user_agent: str, name: str) -> None:
    assert describe(user_agent) == name
