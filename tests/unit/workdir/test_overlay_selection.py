"""The overlay files an agent gets: higher layers win, and only files for its provider count."""

from collections.abc import Callable, Sequence

from gascity.model.wanted import Overlay, OverlayFile
from gascity.workdir.overlays import (
    OverlaySelection,
    fallback_notes,
    select_files,
    unknown_slots,
)

SETTINGS = ".claude/settings.json"


def overlay(origin: str, *paths: str) -> Overlay:
    """`per-provider/kiro/AGENTS.md` is the provider's `AGENTS.md`."""
    files = []
    for path in paths:
        provider, name = "", path
        if path.startswith("per-provider/"):
            _, provider, name = path.split("/", 2)
        source = f"{origin}/overlay/{path}"
        files.append(OverlayFile(name, source, f"/{source}", 0o644, (0, 0, 0, 0), provider))
    slots = tuple(sorted({one.provider for one in files if one.provider}))
    return Overlay(origin, origin, tuple(files), slots)


def chosen(
    *overlays: Overlay,
    providers: Sequence[str] = ("claude",),
    fallbacks: Sequence[str] = (),
    foreign: Callable[[str], bool] = lambda _: False,
) -> OverlaySelection:
    return select_files(overlays, providers, fallbacks, foreign, lambda path: path == SETTINGS)


def sources(found: OverlaySelection) -> dict[str, list[str]]:
    return {path: [file.source for file in one.files] for path, one in sorted(found.files.items())}


def test_a_later_layer_covers_an_earlier_one_and_says_so() -> None:
    found = chosen(overlay("city", "a", "b"), overlay("agent", "b", "c"))
    assert sources(found) == {
        "a": ["city/overlay/a"],
        "b": ["agent/overlay/b"],
        "c": ["agent/overlay/c"],
    }
    assert [(one.path, one.source, one.by) for one in found.shadowed] == [
        ("b", "city/overlay/b", "agent/overlay/b")
    ]
    assert found.files["b"].origin == "agent"


def test_an_agent_gets_no_other_providers_files() -> None:
    layer = overlay("city", "per-provider/claude/CLAUDE.md", "per-provider/codex/AGENTS.md", "all")
    assert sorted(chosen(layer).files) == ["CLAUDE.md", "all"]
    assert sorted(chosen(layer, providers=["codex"]).files) == ["AGENTS.md", "all"]


def test_in_one_layer_the_providers_file_covers_the_one_for_all() -> None:
    found = chosen(overlay("city", "per-provider/claude/x", "x"))
    assert sources(found) == {"x": ["city/overlay/per-provider/claude/x"]}


def test_a_file_for_all_in_a_later_layer_covers_the_providers_in_an_earlier() -> None:
    found = chosen(overlay("city", "per-provider/claude/x"), overlay("agent", "x"))
    assert sources(found) == {"x": ["agent/overlay/x"]}


def test_the_familys_slot_comes_before_the_concrete_one() -> None:
    layer = overlay("city", "per-provider/fast/x", "per-provider/claude/x", "per-provider/claude/y")
    found = chosen(layer, providers=["claude", "fast"])
    assert sources(found) == {
        "x": ["city/overlay/per-provider/fast/x"],
        "y": ["city/overlay/per-provider/claude/y"],
    }


def test_a_provider_that_is_its_own_family_is_looked_at_once() -> None:
    found = chosen(
        overlay("city", f"per-provider/claude/{SETTINGS}"), providers=["claude", "claude"]
    )
    assert len(found.files[SETTINGS].files) == 1


def test_shared_settings_of_all_layers_are_put_together_lowest_first() -> None:
    found = chosen(
        overlay("city", SETTINGS, f"per-provider/claude/{SETTINGS}"), overlay("agent", SETTINGS)
    )
    assert sources(found) == {
        SETTINGS: [
            f"city/overlay/{SETTINGS}",
            f"city/overlay/per-provider/claude/{SETTINGS}",
            f"agent/overlay/{SETTINGS}",
        ]
    }
    assert found.shadowed == ()
    assert found.files[SETTINGS].origins == ("city", "city", "agent")


class TestFallbacks:
    """A provider's fallback file never covers one that is there already."""

    LAYER = overlay("city", "per-provider/kiro/AGENTS.md")

    def kiro(self, *overlays: Overlay, there: Sequence[str] = ()) -> OverlaySelection:
        return chosen(
            *overlays,
            providers=["kiro"],
            fallbacks=["AGENTS.md"],
            foreign=lambda path: path in there,
        )

    def test_it_goes_in_where_nothing_is(self) -> None:
        assert sorted(self.kiro(self.LAYER).files) == ["AGENTS.md"]

    def test_it_stays_out_where_the_directory_has_one(self) -> None:
        found = self.kiro(self.LAYER, there=["AGENTS.md"])
        assert found.files == {}
        (loser,) = found.kept
        assert loser.by == ""
        (note,) = fallback_notes(found)
        assert (note.code, note.is_error) == ("fallback-skipped", False)

    def test_it_stays_out_where_the_same_layer_has_one_for_all(self) -> None:
        found = self.kiro(overlay("city", "per-provider/kiro/AGENTS.md", "AGENTS.md"))
        assert sources(found) == {"AGENTS.md": ["city/overlay/AGENTS.md"]}
        assert found.kept[0].by == "city/overlay/AGENTS.md"

    def test_it_stays_out_where_a_lower_layer_has_one(self) -> None:
        higher = overlay("agent", "per-provider/kiro/AGENTS.md")
        found = self.kiro(overlay("city", "AGENTS.md"), higher)
        assert sources(found) == {"AGENTS.md": ["city/overlay/AGENTS.md"]}
        assert "from city/overlay/AGENTS.md" in fallback_notes(found)[0].message

    def test_a_higher_layers_file_for_all_covers_it(self) -> None:
        found = self.kiro(self.LAYER, overlay("agent", "AGENTS.md"))
        assert sources(found) == {"AGENTS.md": ["agent/overlay/AGENTS.md"]}

    def test_other_files_of_the_provider_follow_the_usual_order(self) -> None:
        layer = overlay("city", "x", "per-provider/kiro/x")
        assert sources(self.kiro(layer, there=["x"])) == {"x": ["city/overlay/per-provider/kiro/x"]}

    def test_a_file_of_that_name_for_all_is_no_fallback(self) -> None:
        found = self.kiro(overlay("city", "AGENTS.md"), there=["AGENTS.md"])
        assert sorted(found.files) == ["AGENTS.md"]


class TestFileAgainstDirectory:
    """One layer has a file where another has a directory: the later one stays."""

    def test_a_later_directory_covers_an_earlier_file(self) -> None:
        found = chosen(overlay("city", "docs"), overlay("agent", "docs/a", "docs/b/c"))
        assert sorted(found.files) == ["docs/a", "docs/b/c"]
        assert [one.path for one in found.shadowed] == ["docs"]

    def test_a_later_file_covers_all_of_an_earlier_directory(self) -> None:
        found = chosen(overlay("city", "docs/a", "docs/b/c", "other"), overlay("agent", "docs"))
        assert sorted(found.files) == ["docs", "other"]
        assert sorted(one.path for one in found.shadowed) == ["docs/a", "docs/b/c"]

    def test_what_comes_back_in_a_third_layer_wins_over_both(self) -> None:
        found = chosen(
            overlay("pack", "docs/a"), overlay("city", "docs"), overlay("agent", "docs/a", "docs/b")
        )
        assert sorted(found.files) == ["docs/a", "docs/b"]

    def test_a_merged_file_counts_from_where_it_was_last_written(self) -> None:
        found = chosen(
            overlay("pack", SETTINGS), overlay("city", ".claude"), overlay("agent", SETTINGS)
        )
        assert sorted(found.files) == [SETTINGS]


def test_a_slot_of_a_provider_that_does_not_exist_is_a_warning_with_a_suggestion() -> None:
    layer = overlay("city", "per-provider/cluade/x", "per-provider/cluade/y", "per-provider/kiro/z")
    (problem,) = unknown_slots([layer], ["claude", "kiro"])
    assert (problem.code, problem.is_error) == ("unknown-slot", False)
    assert problem.place is not None
    assert problem.place.file == "city/overlay/per-provider/cluade"
    assert problem.hint is not None
    assert "claude" in problem.hint
