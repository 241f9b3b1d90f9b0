"""Decide whether the roof may be open. If in doubt, it shuts."""

import tomllib
from dataclasses import dataclass
from pathlib import Path

LIMITS = Path(__file__).with_name("limits.toml")


@dataclass(frozen=True)
class Reading:
    """Readings of the mast; None means that the sensor did not respond."""

    wind: float | None
    humidity: float | None
    rain: bool | None


@dataclass(frozen=True)
class Limits:
    """The roof shuts above these."""

    wind: float
    humidity: float


@dataclass(frozen=True)
class Decision:
    """What the roof should do, and the reason for the log."""

    state: str
    reason: str


def load_limits(path: Path = LIMITS) -> Limits:
    return Limits(**tomllib.loads(path.read_text(encoding="utf-8")))


def decide(reading: Reading, limits: Limits) -> Decision:
    """Return the first reason to shut; without one, the roof may open."""
    for name in ("wind", "humidity", "rain"):
        if getattr(reading, name) is None:
            return Decision("shut", f"{name} sensor is silent")
    assert reading.wind is not None and reading.humidity is not None
    if reading.rain:
        return Decision("shut", "rain")
    if reading.wind > limits.wind:
        return Decision("shut", f"wind {reading.wind} m/s is over {limits.wind}")
    if reading.humidity > limits.humidity:
        return Decision("shut", f"humidity {reading.humidity} % is over {limits.humidity}")
    return Decision("open", "all within limits")
