"""Durations in settings (`1h30m`) and in output (`2h 5m`)."""

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}


def parse_duration(text: object) -> float | None:
    """Return `1h30m` in seconds; None for anything that is not a duration, such as `off`."""
    if not isinstance(text, str) or not text:
        return None
    total, number = 0.0, ""
    at = 0
    while at < len(text):
        if text[at].isdigit() or text[at] == ".":
            number += text[at]
            at += 1
            continue
        unit = text[at : at + 2] if text[at : at + 2] == "ms" else text[at]
        if unit not in _UNITS or not number:
            return None
        try:
            total += float(number) * _UNITS[unit]
        except ValueError:
            return None
        number = ""
        at += len(unit)
    return None if number else total


def format_duration(length: float) -> str:
    """Format a duration in its two largest units: `2h 5m`, `40s`, `0.3s`."""
    if length <= 0:
        return "now"
    if length < 10:
        return f"{length:.1f}s".replace(".0s", "s")
    parts = []
    left = int(length)
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m"), (1, "s")):
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count}{unit}")
    return " ".join(parts[:2])
