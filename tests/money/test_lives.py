"""Random lives against a model; the deep version is in tests/stress."""

import asyncio

from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from money.lives import Lives


def live(book: str, examples: int, steps: int) -> None:
    """Run so many lives of so many steps, all on one loop and one database."""
    with asyncio.Runner() as runner:
        Lives.url, Lives.loop = book, runner.get_loop()
        run_state_machine_as_test(
            Lives,
            settings=settings(
                max_examples=examples,
                stateful_step_count=steps,
                deadline=None,
                database=None,
                suppress_health_check=list(HealthCheck),
            ),
        )


def test_random_lives_come_to_what_the_model_says(book: str) -> None:
    live(book, examples=40, steps=30)
