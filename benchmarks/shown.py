"""Formats measurements and derived figures as tables."""

from collections.abc import Iterable, Iterator

Row = dict[str, object]


COLUMNS = {
    "median_ms": ("median", "ms"),
    "min_ms": ("min", "ms"),
    "ratio": ("median", "x"),
    "min_ratio": ("min", "x"),
    "cpu_ratio": ("cpu", "x"),
    "before": ("before", "x"),
    "before_cpu": ("before", "cpu x"),
    "limit": ("limit", "x"),
    "peak_mb": ("peak", "MB"),
}


def table(rows: Iterable[Row]) -> Iterator[str]:
    """Return aligned columns, without those that are empty in every row."""
    rows = list(rows)
    columns = [name for name in COLUMNS if any(row.get(name) is not None for row in rows)]
    for at, heads in enumerate((("", ""), ("measure", "agents"))):
        yield f"{heads[0]:<40}{heads[1]:>7}" + "".join(f"{COLUMNS[c][at]:>9}" for c in columns)
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
