#!/usr/bin/env python3
"""A small MCP server over standard input and output: bright stars and their positions.

Needs only Python. Each line is one JSON-RPC message; standard output contains only responses.
"""

import argparse
import csv
import json
import math
import os
import sys
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, NamedTuple

PROTOCOLS = ("2025-11-25", "2025-06-18", "2024-11-05")
STARS = Path(__file__).resolve().with_name("stars.csv")
PARSE_ERROR, INVALID_REQUEST, NO_METHOD, INVALID_PARAMS = -32700, -32600, -32601, -32602


class Star(NamedTuple):
    """A star with its position in the year 2000."""

    name: str
    ra_hours: float
    dec_degrees: float
    magnitude: float
    constellation: str


class Site(NamedTuple):
    """Position of the observer in degrees; east and north are positive."""

    latitude: float
    longitude: float


class BadParams(Exception):
    """The message is well formed, but its parameters are invalid."""


class ToolError(Exception):
    """The tool failed; the model receives the reason."""


TOOLS = [
    {
        "name": "find_star",
        "description": "Position, magnitude and constellation of one bright star.",
        "inputSchema": {
            "type": "object",
            "properties": {"name": {"type": "string", "description": "Such as Vega"}},
            "required": ["name"],
        },
    },
    {
        "name": "stars_up",
        "description": "Bright stars above the horizon of the site at a given time, highest first.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "utc": {"type": "string", "description": "ISO time, such as 2026-03-14T22:00Z"},
                "above": {"type": "number", "description": "Minimum altitude in degrees (default: 20)"},
            },
            "required": ["utc"],
        },
    },
]


def read_stars(path: Path, faintest: float) -> list[Star]:
    with path.open(encoding="utf-8", newline="") as file:
        rows = [
            Star(r["name"], float(r["ra_hours"]), float(r["dec_degrees"]), float(r["magnitude"]),
                 r["constellation"])
            for r in csv.DictReader(file)
        ]
    return [star for star in rows if star.magnitude <= faintest]


def altitude(star: Star, site: Site, when: datetime) -> float:
    """Degrees above the horizon, without refraction; good to about half a degree."""
    days = (when - datetime(2000, 1, 1, 12, tzinfo=timezone.utc)).total_seconds() / 86400
    sidereal = 280.46061837 + 360.98564736629 * days + site.longitude
    hour_angle = math.radians(sidereal - 15 * star.ra_hours)
    lat, dec = math.radians(site.latitude), math.radians(star.dec_degrees)
    sine = math.sin(lat) * math.sin(dec) + math.cos(lat) * math.cos(dec) * math.cos(hour_angle)
    return math.degrees(math.asin(max(-1.0, min(1.0, sine))))


def find_star(stars: list[Star], _: Site, arguments: dict[str, Any]) -> str:
    wanted = arguments.get("name")
    if not isinstance(wanted, str):
        raise ToolError("`name` has to be a string")
    for star in stars:
        if star.name.lower() == wanted.strip().lower():
            return (f"{star.name} in {star.constellation}: right ascension {star.ra_hours:.3f} h, "
                    f"declination {star.dec_degrees:+.3f} deg, magnitude {star.magnitude:.2f}")
    raise ToolError(f"no star called {wanted!r}; known: {', '.join(star.name for star in stars)}")


def stars_up(stars: list[Star], site: Site, arguments: dict[str, Any]) -> str:
    above = arguments.get("above", 20)
    if isinstance(above, bool) or not isinstance(above, int | float):
        raise ToolError("`above` has to be a number of degrees")
    try:
        when = datetime.fromisoformat(str(arguments.get("utc")))
    except ValueError:
        raise ToolError("`utc` has to be an ISO time, such as 2026-03-14T22:00Z") from None
    when = when if when.tzinfo else when.replace(tzinfo=timezone.utc)
    heights = sorted(((altitude(star, site, when), star) for star in stars), reverse=True)
    lines = [f"{height:5.1f} deg  {star.name} ({star.magnitude:.2f})"
             for height, star in heights if height >= above]
    return "\n".join(lines) or f"no bright star stands above {above} degrees then"


CALLS: dict[str, Callable[[list[Star], Site, dict[str, Any]], str]] = {
    "find_star": find_star,
    "stars_up": stars_up,
}


def call(stars: list[Star], site: Site, params: dict[str, Any]) -> dict[str, Any]:
    name, arguments = params.get("name"), params.get("arguments", {})
    if not isinstance(name, str) or name not in CALLS or not isinstance(arguments, dict):
        raise BadParams(f"unknown tool or bad arguments: {name}")
    try:
        text, failed = CALLS[name](stars, site, arguments), False
    except ToolError as error:
        text, failed = str(error), True
    return {"content": [{"type": "text", "text": text}], "isError": failed}


def initialize(params: dict[str, Any]) -> dict[str, Any]:
    """Use the client's protocol version if supported, otherwise the newest."""
    asked = params.get("protocolVersion")
    return {
        "protocolVersion": asked if asked in PROTOCOLS else PROTOCOLS[0],
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "star-catalog", "version": "1.0.0"},
    }


def answer(message: Any, stars: list[Star], site: Site) -> dict[str, Any] | None:
    """Return the reply to one message, or None if it needs none."""
    if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
        return fault(None, INVALID_REQUEST, "not a JSON-RPC 2.0 message")
    method, params, ident = message.get("method"), message.get("params", {}), message.get("id")
    if "id" not in message or method is None:  # a notification, or a response to no request
        return None
    if not isinstance(params, dict):
        return fault(ident, INVALID_PARAMS, "params have to be an object")
    try:
        match method:
            case "initialize":
                result = initialize(params)
            case "ping":
                result = {}
            case "tools/list":
                result = {"tools": TOOLS}
            case "tools/call":
                result = call(stars, site, params)
            case _:
                return fault(ident, NO_METHOD, f"no such method: {method}")
    except BadParams as error:
        return fault(ident, INVALID_PARAMS, str(error))
    return {"jsonrpc": "2.0", "id": ident, "result": result}


def fault(ident: Any, code: int, text: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": ident, "error": {"code": code, "message": text}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--latitude", type=float, default=51.5)
    parser.add_argument("--longitude", type=float, default=7.6)
    options = parser.parse_args()
    stars = read_stars(STARS, float(os.environ.get("FAINTEST_MAGNITUDE", "99")))
    site = Site(options.latitude, options.longitude)
    for line in sys.stdin:
        if not line.strip():
            continue
        try:
            reply = answer(json.loads(line), stars, site)
        except json.JSONDecodeError:
            reply = fault(None, PARSE_ERROR, "not JSON")
        if reply is not None:
            print(json.dumps(reply), flush=True)


if __name__ == "__main__":
    main()
