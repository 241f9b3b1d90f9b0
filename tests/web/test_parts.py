"""Diffs and charts as the pages draw them."""

from gascity.model.work import DONE, NewWork
from gascity.store.port import Activity, Store
from gascity.web.charts import HEIGHT, STEP, STEPS, RecentActivity, chart, first_step
from gascity.web.patches import MOST_LINES, parse_patch
from gascity.web.templating import ago, money, style_sheet

PATCH = """\
diff --git a/old.txt b/new.txt
similarity index 90%
rename from old.txt
rename to new.txt
index 1..2 100644
--- a/old.txt
+++ b/new.txt
@@ -1,3 +1,3 @@
 same
--- a removed line that looks like a file
+++ an added one
 end
\\ No newline at end of file
diff --git a/picture.png b/picture.png
new file mode 100644
index 0..1
Binary files /dev/null and b/picture.png differ
diff --git a/gone.txt b/gone.txt
deleted file mode 100644
--- a/gone.txt
+++ /dev/null
@@ -1 +0,0 @@
-last
""".splitlines()


def test_a_patch_is_split_into_files_hunks_and_numbered_lines() -> None:
    new, picture, gone = parse_patch(PATCH).files
    assert (new.name, new.added, new.removed) == ("new.txt", 1, 1)
    kinds = [line.kind for line in new.lines]
    assert kinds == ["info"] * 3 + ["hunk", "same", "removed", "added", "same", "note"]
    assert [(line.old, line.new) for line in new.lines[4:8]] == [(1, 1), (2, 0), (0, 2), (3, 3)]
    assert new.lines[5].text == "-- a removed line that looks like a file"
    assert picture.name == "picture.png"
    assert any("Binary files" in line.text for line in picture.lines)
    assert (gone.name, gone.removed) == ("gone.txt", 1)


def test_the_diff_of_a_plan_has_no_git_headers() -> None:
    text = "--- /dev/null\n+++ b/RULES.md\n@@ -0,0 +1,1 @@\n+Be kind.\n\n1 write; run `city apply`"
    (file,) = parse_patch(text.split("\n")).files
    assert (file.name, file.added) == ("RULES.md", 1)
    assert [line.kind for line in file.lines] == ["hunk", "added"]
    assert parse_patch([]).files == []


def test_a_huge_patch_is_cut() -> None:
    lines = ["--- a/x", "+++ b/x", f"@@ -0,0 +1,{MOST_LINES} @@", *["+line"] * MOST_LINES]
    patch = parse_patch(lines)
    assert patch.left_out == 3
    assert sum(len(file.lines) for file in patch.files) <= MOST_LINES


def test_a_chart_has_a_bar_for_each_step_and_the_highest_fills_it() -> None:
    now = 1_000_000.0
    since = first_step(now)
    drawn = chart([Activity(since, 3, 1, 0.5), Activity(since + 2 * STEP, 2, 0, 0.25)], now)
    assert len(drawn.bars) == STEPS
    assert drawn.bars[-1].start <= now < drawn.bars[-1].start + STEP
    first = drawn.bars[0]
    assert first.done_height + first.failed_height == HEIGHT
    assert first.failed_y == 0
    assert drawn.bars[2].done_height == HEIGHT / 2
    assert (drawn.done, drawn.failed, drawn.cost) == (5, 1, 0.75)
    assert all(bar.done_height == 0 for bar in chart((), now).bars)


def test_the_past_of_the_chart_is_read_once_a_minute_and_the_present_always(store: Store) -> None:
    now = first_step(1e9) + STEPS * STEP - 1
    recent = RecentActivity()

    def finish(at: float) -> list[int]:
        work = store.add_work(NewWork("mayor", "Open", "Open"), at)
        store.finish(work.id, DONE, None, at, token=None)
        return [each.done for each in recent.read(store, now)]

    assert finish(now - 2 * STEP) == [1]
    assert finish(now) == [1, 1]
    assert finish(now - 2 * STEP) == [1, 1]
    assert [each.done for each in recent.read(store, now + 61)] == [2, 1]
    assert recent.read(store, now + 13 * 3600) == []


def test_values_are_written_for_people() -> None:
    assert [money(value) for value in (None, 0.0, 0.0042, 1.5)] == ["", "$0.00", "$0.0042", "$1.50"]
    assert ago(None) == ""
    assert ago(0.0).endswith("d ago")


def test_the_style_sheet_refers_to_nothing_elsewhere() -> None:
    text = style_sheet()
    assert "url(" not in text
    assert "@import" not in text
    assert "prefers-color-scheme: dark" in text
