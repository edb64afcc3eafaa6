"""Ids sort by the time they were made; session ids cannot be guessed."""

import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import get_args

import pytest

from opentill.core import ids


@pytest.mark.parametrize("prefix", get_args(ids.Prefix))
def test_an_id_is_its_prefix_and_26_letters_and_digits(prefix: ids.Prefix) -> None:
    made = ids.new_id(prefix)
    assert re.fullmatch(prefix + "_[0-9a-hjkmnp-tv-z]{26}", made)
    assert ids.is_id(made)


def test_ids_sort_by_time(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    for ms in (0, 1, 1_000, 1_736_932_500_000, 1_736_932_500_001, 4_102_444_800_000, 2**48 - 1):
        for nanos in (0, 250, 1_000, 500_000, 999_999):
            monkeypatch.setattr(time, "time_ns", lambda at=ms * 1_000_000 + nanos: at)
            made += sorted(ids.new_id("order") for _ in range(20))
    assert made == sorted(made)
    assert len(set(made)) == len(made)


def test_an_id_is_a_uuid_of_version_7(monkeypatch: pytest.MonkeyPatch) -> None:
    at = 1_736_932_500_123
    monkeypatch.setattr(time, "time_ns", lambda: at * 1_000_000 + 400_000)
    numbers = set()
    for _ in range(600):
        number = 0
        for digit in ids.new_id("order").removeprefix("order_"):
            number = number << 5 | "0123456789abcdefghjkmnpqrstvwxyz".index(digit)
        assert number >> 80 == at
        assert number >> 76 & 15 == 7  # RFC 9562 §4.2
        assert number >> 64 & 4095 == int(0.4 * 4096)
        assert number >> 62 & 3 == 2  # RFC 9562 §4.1
        numbers.add(number & 2**62 - 1)
    assert len(numbers) == 600
    for bit in range(62):  # each of the 62 takes both values
        assert len({number >> bit & 1 for number in numbers}) == 2


_FORKED = """
import os
from opentill.core.ids import new_id

new_id("req")  # what is random was drawn for many
if child := os.fork():
    os.waitpid(child, 0)  # whose line is whole then
print(*(new_id("req")[-12:] for _ in range(100)), flush=True)
"""


def test_a_process_that_was_forked_makes_ids_of_its_own() -> None:
    # A process of its own, since this one has threads, which a fork must not have.
    made = subprocess.run([sys.executable, "-c", _FORKED], check=True, capture_output=True)
    assert len(set(made.stdout.split())) == 200


def test_what_comes_after_every_id_does_so_in_every_collation() -> None:
    assert all(ids.new_id(prefix) < ids.LAST for prefix in get_args(ids.Prefix))
    assert ids.LAST.isalpha()  # where words are sorted, other characters come before letters
    bounds = [
        path.name
        for path in Path(ids.__file__).parents[1].rglob("*.py")
        if re.search(r"= \"\w*~\"", path.read_text())
    ]
    assert bounds == []


def test_threads_make_ids_of_their_own() -> None:
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda _: [ids.new_id("req")[-12:] for _ in range(1_000)], range(8)))
    assert len({tail for tails in made for tail in tails}) == 8_000


def test_session_ids_are_160_random_bits() -> None:
    made = {ids.new_session_id() for _ in range(1_000)}
    assert len(made) == 1_000
    assert all(re.fullmatch("cs_[0-9a-hjkmnp-tv-z]{32}", each) for each in made)
    for place in range(3, 35):  # every place takes many values
        assert len({each[place] for each in made}) > 20


@pytest.mark.parametrize(
    "text",
    ["", "x", "prod_", "prod_x", "prod", "_0123456789abcdef", "PROD_0123456789abcdef",
     "prod_0123456789abcde!", "prod_0123456789abcdef\n", "prod_" + "0" * 41,
     "prod-0123456789abcdef", "prod_٣٣٣٣٣٣٣٣٣٣٣٣٣٣٣٣", "\0"],
)  # fmt: skip
def test_other_text_is_no_id(text: str) -> None:
    assert not ids.is_id(text)


def test_an_id_says_when_it_was_made() -> None:
    before = time.time_ns() // 1_000_000
    made = ids.made_at(ids.new_id("att"))
    assert before <= made <= time.time_ns() // 1_000_000


@pytest.mark.parametrize("text", ["", "att_", "att_1", "att_" + "u" * 26, "cs_" + "0" * 32])
def test_other_text_does_not_say_when_it_was_made(text: str) -> None:
    with pytest.raises(ValueError, match=r"does not say|not found"):
        ids.made_at(text)


def test_the_number_of_an_id_is_small_enough_for_everybody_and_sorts_as_the_id_does() -> None:
    moments = [1_767_225_600_000, 1_767_225_600_001, 3_000_000_000_000]
    numbers = [ids.number_of(ids.first_id("po", moment)) for moment in moments]
    assert numbers == sorted(numbers)
    assert [number >> 12 for number in numbers] == [at - 1_704_067_200_000 for at in moments]
    made = ids.new_id("po")
    assert ids.number_of(made) == ids.number_of(made)
    assert ids.number_of(made) >> 12 == ids.made_at(made) - 1_704_067_200_000
    assert max(*numbers, ids.number_of(made)) < 2**53
