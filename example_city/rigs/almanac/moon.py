"""Age and phase of the moon, good to about half a day."""

from datetime import date

MONTH = 29.530588  # mean days from one new moon to the next
NEW_MOON = date(2000, 1, 6)

PHASES = (
    "new moon",
    "waxing crescent",
    "first quarter",
    "waxing gibbous",
    "full moon",
    "waning gibbous",
    "last quarter",
    "waning crescent",
)


def age(day: date) -> float:
    """Days since the last new moon, at 18:00 UTC of that day."""
    return ((day - NEW_MOON).days - 0.01) % MONTH


def phase(day: date) -> str:
    return PHASES[round(age(day) / MONTH * len(PHASES)) % len(PHASES)]
