"""A city lives through thousands of random happenings, and its laws hold after every one.

`SIMULATION_SEEDS=<seed>` replays a seed that fails, `SIMULATION_STEPS` makes it longer.
"""

import os

import pytest

from tests.support.simulated_events import Life

_SEEDS = [int(seed) for seed in os.environ.get("SIMULATION_SEEDS", "1 2 3").split()]
_STEPS = int(os.environ.get("SIMULATION_STEPS", "10000"))


@pytest.mark.parametrize("seed", _SEEDS)
def test_a_city_keeps_its_laws_whatever_happens_and_comes_to_rest(seed: int) -> None:
    life = Life(seed)
    for number in range(_STEPS):
        try:
            life.step()
        except AssertionError as error:
            raise AssertionError(
                f"seed {seed}, step {number} ({life.happened}): {error}"
            ) from error
    life.calm()
    life.rest()
    life.check_rest()
