"""Measures and derived figures as people read them."""

from collections.abc import Iterable, Iterator

Row = dict[str, object]


def table(rows: Iterable[Row]) -> Iterator[str]:
    """The rows as people read them."""
    columns = ("median_ms", "min_ms", "ratio", "min_ratio", "cpu_ratio", "limit", "peak_mb")
    for heads in (
        ("", "", "median", "min", "median", "min", "cpu", "limit", "peak"),
        ("measure", "agents", "ms", "ms", "x", "x", "x", "x", "MB"),
    ):
        yield f"{heads[0]:<40}{heads[1]:>7}" + "".join(f"{head:>9}" for head in heads[2:])
    for row in rows:
        cells = (_cell(row.get(column)) for column in columns)
        line = f"{row['measure']:<40}{row['agents']:>7,}" + "".join(f"{cell:>9}" for cell in cells)
        yield f"{line}  {row['verdict']}".rstrip()


def _cell(value: object) -> str:
    if not isinstance(value, float):
        return ""
    return f"{value:,.2f}" if value < 100 else f"{value:,.0f}"


def figures(growth: Iterable[Row]) -> Iterator[str]:
    for row in growth:
        limit = "" if row["limit"] is None else f"limit {row['limit']:g}"
        value = f"{row['value']:.3f} {row['unit']}"
        yield f"{row['figure']:<68}{value:>11}   {limit:<12}{row['verdict']}".rstrip()
