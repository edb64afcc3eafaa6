"""Ids sort by their time of creation; session ids cannot be guessed."""

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
    new_id = ids.new_id(prefix)
    assert re.fullmatch(prefix + "_[0-9a-hjkmnp-tv-z]{26}", new_id)
    assert ids.is_id(new_id)


def test_ids_sort_by_time(monkeypatch: pytest.MonkeyPatch) -> None:
    new_ids = []
    for ms in (0, 1, 1_000, 1_736_932_500_000, 1_736_932_500_001, 4_102_444_800_000, 2**48 - 1):
        for nanos in (0, 250, 1_000, 500_000, 999_999):
            monkeypatch.setattr(time, "time_ns", lambda time_ns=ms * 1_000_000 + nanos: time_ns)
            new_ids += sorted(ids.new_id("order") for _ in range(20))
    assert new_ids == sorted(new_ids)
    assert len(set(new_ids)) == len(new_ids)


def test_an_id_is_a_uuid_of_version_7(monkeypatch: pytest.MonkeyPatch) -> None:
    time_ms = 1_736_932_500_123
    monkeypatch.setattr(time, "time_ns", lambda: time_ms * 1_000_000 + 400_000)
    numbers = set()
    for _ in range(600):
        number = 0
        for digit in ids.new_id("order").removeprefix("order_"):
            number = number << 5 | "0123456789abcdefghjkmnpqrstvwxyz".index(digit)
        assert number >> 80 == time_ms
        assert number >> 76 & 15 == 7  # the version (RFC 9562 §4.2)
        assert number >> 64 & 4095 == int(0.4 * 4096)
        assert number >> 62 & 3 == 2  # the variant (RFC 9562 §4.1)
        numbers.add(number & 2**62 - 1)
    assert len(numbers) == 600
    for bit in range(62):  # each of the 62 bits takes both values
        assert len({number >> bit & 1 for number in numbers}) == 2


_FORKED = """
import os
from opentill.core.ids import new_id

new_id("req")  # random digits for many ids are buffered
if child := os.fork():
    os.waitpid(child, 0)  # wait until the child has printed its line
print(*(new_id("req")[-12:] for _ in range(100)), flush=True)
"""


def test_a_forked_process_creates_different_ids() -> None:
    # The fork happens in another process, because this one has threads.
    process = subprocess.run([sys.executable, "-c", _FORKED], check=True, capture_output=True)
    assert len(set(process.stdout.split())) == 200


def test_the_upper_bound_of_ids_sorts_last_in_every_collation() -> None:
    assert all(ids.new_id(prefix) < ids.LAST for prefix in get_args(ids.Prefix))
    # Collations of natural languages sort other characters before letters.
    assert ids.LAST.isalpha()
    bounds = [
        path.name
        for path in Path(ids.__file__).parents[1].rglob("*.py")
        if re.search(r"= \"\w*~\"", path.read_text())
    ]
    assert bounds == []


def test_threads_create_different_ids() -> None:
    with ThreadPoolExecutor(8) as pool:
        tails_by_thread = list(
            pool.map(lambda _: [ids.new_id("req")[-12:] for _ in range(1_000)], range(8))
        )
    assert len({tail for tails in tails_by_thread for tail in tails}) == 8_000


def test_session_ids_are_160_random_bits() -> None:
    session_ids = {ids.new_session_id() for _ in range(1_000)}
    assert len(session_ids) == 1_000
    assert all(re.fullmatch("cs_[0-9a-hjkmnp-tv-z]{32}", each) for each in session_ids)
    for place in range(3, 35):  # each character takes many values
        assert len({each[place] for each in session_ids}) > 20


@pytest.mark.parametrize(
    "text",
    ["", "x", "prod_", "prod_x", "prod", "_0123456789abcdef", "PROD_0123456789abcdef",
     "prod_0123456789abcde!", "prod_0123456789abcdef\n", "prod_" + "0" * 41,
     "prod-0123456789abcdef", "prod_٣٣٣٣٣٣٣٣٣٣٣٣٣٣٣٣", "\0"],
)  # fmt: skip
def test_other_text_is_not_an_id(text: str) -> None:
    assert not ids.is_id(text)


def test_an_id_contains_its_time_of_creation() -> None:
    before = time.time_ns() // 1_000_000
    time_ms = ids.creation_time(ids.new_id("att"))
    assert before <= time_ms <= time.time_ns() // 1_000_000


@pytest.mark.parametrize("text", ["", "att_", "att_1", "att_" + "u" * 26, "cs_" + "0" * 32])
def test_other_text_has_no_time_of_creation(text: str) -> None:
    with pytest.raises(ValueError, match=r"does not say|not found"):
        ids.creation_time(text)


def test_the_number_of_an_id_fits_53_bits_and_sorts_like_the_id() -> None:
    times_ms = [1_767_225_600_000, 1_767_225_600_001, 3_000_000_000_000]
    numbers = [ids.number_of(ids.first_id("po", time_ms)) for time_ms in times_ms]
    assert numbers == sorted(numbers)
    assert [number >> 12 for number in numbers] == [time - 1_704_067_200_000 for time in times_ms]
    new_id = ids.new_id("po")
    assert ids.number_of(new_id) == ids.number_of(new_id)
    assert ids.number_of(new_id) >> 12 == ids.creation_time(new_id) - 1_704_067_200_000
    assert max(*numbers, ids.number_of(new_id)) < 2**53


def test_ids_of_a_past_time_sort_as_they_were_made_until_the_block_ends() -> None:
    with ids.made_at(1_700_000_000_000):
        past_ids = [ids.new_id("order") for _ in range(20)]
    assert past_ids == sorted(past_ids)
    assert {ids.creation_time(one) for one in past_ids} == {1_700_000_000_000}
    assert ids.new_id("order") > past_ids[-1]
