"""Observed behaviour of the real programs: one row per provider, one column per promise.

A test with the marker `observes(*columns)` fills cells of its provider: "yes" if it passes, "no"
if it fails, the reason if it is skipped, or the text that it passes to the fixture `cell`. Every
run prints the table and compares it with `docs/templates/observed.toml`, from which the reference
page is generated; `make record-providers` writes that file.
"""

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

FILE = Path(__file__).parents[2] / "docs" / "templates" / "observed.toml"
COLUMNS = (
    "prompt",
    "system",
    "listed",
    "runs",
    "stopped",
    "instructions",
    "skills",
    "stdio",
    "http",
    "denied",
    "allowed",
    "gateway",
    "message",
    "async",
    "refused",
    "hud",
    "cut",
    "typed",
    "dialog",
)
NOT_RUN = "not run"

Cells = dict[str, dict[str, str]]  # by provider and column


def recorded() -> tuple[Cells, dict[str, str]]:
    """Return the cells of the last recorded run, and the version of each program."""
    with FILE.open("rb") as file:
        providers: Mapping[str, Mapping[str, str]] = tomllib.load(file)["providers"]
    cells = {
        name: {key: row[key] for key in COLUMNS if key in row} for name, row in providers.items()
    }
    return cells, {name: row["version"] for name, row in providers.items()}


def write(cells: Cells, versions: Mapping[str, str]) -> None:
    """Record the cells of a run; cells that it did not fill keep their text."""
    known, old_versions = recorded()
    lines = [
        "# What the real programs did with a stand-in for the model. Do not edit: it is written by",
        "# `make record-providers`. tests/providers/matrix.py describes the columns.",
    ]
    for name in sorted({*known, *cells}):
        row = {**known.get(name, {}), **cells.get(name, {})}
        version = versions.get(name) or old_versions.get(name, "")
        lines += ["", f"[providers.{name}]", f'version = "{version}"']
        lines += [f'{column} = "{row.get(column, NOT_RUN)}"' for column in COLUMNS]
    FILE.write_text("\n".join(lines) + "\n")


def differences(cells: Cells) -> Iterator[str]:
    """Yield each cell of a run that is not as recorded."""
    known, _ = recorded()
    for name, row in cells.items():
        for column, text in row.items():
            before = known.get(name, {}).get(column, NOT_RUN)
            if before != text:
                yield f"{name}: {column}: recorded {before!r}, now {text!r}"


def table(cells: Cells) -> Iterator[str]:
    """Yield the table of a run as lines."""
    rows = [("provider", *COLUMNS)]
    rows += [(name, *(cells[name].get(column, "") for column in COLUMNS)) for name in sorted(cells)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
