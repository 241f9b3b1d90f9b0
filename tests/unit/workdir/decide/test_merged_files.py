"""In files that are shared with a person we own single keys, and nothing else changes."""

import json
from collections.abc import Mapping

import pytest

from gascity.model.plan import FILE, WantedPath
from tests.support.disk_state import CODEX, FOLDER, Plot, Thing, document, file, link, link_to, said

EDITED = "modified locally"
FOREIGN = "not managed by city"
SERVER = {"command": "npx", "args": ["files"]}
OTHER = {"command": "uvx"}
MINE = '{\n  // mine\n  "mcpServers": {\n    "mine": {"command": "mine"}\n  }\n}\n'


def servers(plot: Plot, path: str = ".mcp.json") -> dict[str, object]:
    lines = [line for line in plot.text(path).splitlines() if not line.lstrip().startswith("//")]
    return dict(json.loads("\n".join(lines)).get("mcpServers", {}))


def mcp(**wanted: Mapping[str, object]) -> WantedPath:
    return document(".mcp.json", servers=wanted)


class TestServers:
    def test_a_file_of_our_own_comes_and_goes_with_its_servers(self) -> None:
        plot = Plot()
        assert plot.apply(mcp(files=SERVER)) == ["merge .mcp.json: servers: files"]
        assert servers(plot) == {"files": SERVER}
        assert plot.apply(mcp(files=SERVER)) == []
        assert plot.apply() == ["remove .mcp.json: no longer needed"]
        assert plot.things == {}
        assert plot.held == {}

    def test_a_persons_file_keeps_everything_of_theirs(self) -> None:
        plot = Plot({".mcp.json": MINE})
        plot.apply(mcp(files=SERVER))
        assert servers(plot) == {"mine": {"command": "mine"}, "files": SERVER}
        assert "// mine" in plot.text(".mcp.json")
        plot.apply()
        assert plot.text(".mcp.json") == MINE

    @pytest.mark.parametrize(
        "text",
        ["", "{}", "\n", '{"mcpServers":{}}', '{"mcpServers": {}, "a": [ 1,2 ]}', "\ufeff{ }\r\n"],
        ids=repr,
    )
    @pytest.mark.parametrize("mode", [0o644, 0o600, 0o664], ids=oct)
    def test_a_file_nobody_else_changed_is_given_back_to_the_byte(
        self, text: str, mode: int
    ) -> None:
        before = Thing(FILE, text.encode(), mode)
        plot = Plot({".mcp.json": before})
        plot.apply(mcp(files=SERVER, more=OTHER)._replace(mode=0o600))
        plot.apply(mcp(files=OTHER))
        assert plot.apply(mcp(files=OTHER)) == []
        plot.apply()
        assert plot.things[".mcp.json"] == before

    def test_what_a_person_wrote_beside_ours_in_the_meantime_stays(self) -> None:
        plot = Plot({".mcp.json": MINE})
        plot.apply(mcp(files=SERVER))
        plot.put(".mcp.json", plot.text(".mcp.json").replace("// mine", "// mine, and more"))
        plot.apply(mcp(files=OTHER))
        plot.apply()
        assert "// mine, and more" in plot.text(".mcp.json")
        assert servers(plot) == {"mine": {"command": "mine"}}

    def test_a_server_of_the_same_name_is_taken_over_and_put_back(self) -> None:
        plot = Plot({".mcp.json": '{"mcpServers": {"files": {"command": "mine"}}} '})
        plot.apply(mcp(files=SERVER))
        assert servers(plot) == {"files": SERVER}
        plot.put(".mcp.json", plot.text(".mcp.json") + "\n")
        plot.apply(mcp(more=OTHER))
        assert servers(plot) == {"files": {"command": "mine"}, "more": OTHER}

    def test_the_first_server_in_a_persons_file_asks_for_a_copy_of_it(self) -> None:
        plot = Plot({".mcp.json": MINE})
        assert plot.do(plot.plan(mcp(files=SERVER))).snapshots == [".mcp.json"]
        assert plot.plan(mcp(files=OTHER, more=SERVER)).snapshots == []

    def test_a_file_of_our_own_is_not_copied(self) -> None:
        plot = Plot()
        assert plot.do(plot.plan(document(".mcp.json", {"a": 1}))).snapshots == []
        assert plot.plan(document(".mcp.json", {"a": 1}, servers={"x": SERVER})).snapshots == []

    def test_a_server_that_was_edited_is_kept(self) -> None:
        plot = Plot()
        plot.apply(mcp(files=SERVER, more=OTHER))
        plot.put(".mcp.json", plot.text(".mcp.json").replace("npx", "/mine"))
        kept = f"keep .mcp.json: server `files`: {EDITED}"
        assert plot.apply(mcp(files=OTHER, more=OTHER)) == [kept]
        assert servers(plot)["files"] == {"command": "/mine", "args": ["files"]}
        assert plot.apply(mcp(more=OTHER))[0].endswith(f"no longer needed, but {EDITED}")
        assert "files" in servers(plot)
        assert plot.apply(mcp(more=OTHER)) == []

    def test_force_replaces_an_edited_server(self) -> None:
        plot = Plot()
        plot.apply(mcp(files=SERVER))
        plot.put(".mcp.json", plot.text(".mcp.json").replace("npx", "/mine"))
        plot.apply(mcp(files=SERVER), force=True)
        assert servers(plot) == {"files": SERVER}

    def test_an_adopted_server_is_silent_until_its_source_changes(self) -> None:
        plot = Plot()
        plot.apply(mcp(files=SERVER))
        plot.put(".mcp.json", plot.text(".mcp.json").replace("npx", "/mine"))
        assert plot.apply(mcp(files=SERVER), adopt=True) == []
        assert plot.apply(mcp(files=SERVER)) == []
        assert plot.apply(mcp(files=OTHER)) == [f"keep .mcp.json: server `files`: {EDITED}"]

    def test_what_a_provider_adds_to_our_server_survives(self) -> None:
        plot = Plot()
        plot.apply(mcp(files=SERVER))
        plot.put(".mcp.json", plot.text(".mcp.json").replace('"args"', '"approved": true, "args"'))
        assert plot.apply(mcp(files=SERVER)) == []
        plot.apply(mcp(files=OTHER))
        assert servers(plot) == {"files": {"command": "uvx", "approved": True}}

    def test_a_server_that_was_deleted_comes_back(self) -> None:
        plot = Plot({".mcp.json": MINE})
        plot.apply(mcp(files=SERVER))
        plot.put(".mcp.json", MINE)
        assert plot.apply(mcp(files=SERVER)) == ["merge .mcp.json: servers: files"]

    def test_a_file_that_was_deleted_is_made_anew_and_is_ours_then(self) -> None:
        plot = Plot({".mcp.json": '{"mcpServers": {"files": {"command": "mine"}}}'})
        plot.apply(mcp(files=SERVER))
        del plot.things[".mcp.json"]
        plot.apply(mcp(files=SERVER))
        assert servers(plot) == {"files": SERVER}
        plot.apply()
        assert plot.things == {}

    def test_a_file_we_made_stays_for_what_a_person_wrote_in_it(self) -> None:
        plot = Plot()
        plot.apply(mcp(files=SERVER))
        plot.put(".mcp.json", plot.text(".mcp.json").replace("{\n", "{\n  // note to self\n", 1))
        plot.apply()
        assert "// note to self" in plot.text(".mcp.json")
        assert "files" not in plot.text(".mcp.json")

    def test_toml_keeps_comments_tables_and_times(self) -> None:
        text = '# mine\nmodel = "o3"\n\n[mcp_servers.files]\ncommand = "mine"\nsince = 2020-01-02\n'
        plot = Plot({".codex/config.toml": text})
        wanted = document(".codex/config.toml", servers={"files": SERVER}, shape=CODEX)
        plot.apply(wanted)
        assert "# mine" in plot.text(".codex/config.toml")
        assert '"npx"' in plot.text(".codex/config.toml")
        plot.put(".codex/config.toml", plot.text(".codex/config.toml") + "# more\n")
        plot.apply()
        assert "since = 2020-01-02" in plot.text(".codex/config.toml")
        assert "# more" in plot.text(".codex/config.toml")

    def test_a_secret_closes_the_file_and_the_mode_comes_back_without_it(self) -> None:
        plot = Plot({".mcp.json": Thing(FILE, MINE.encode(), 0o644)})
        plot.apply(mcp(files=SERVER)._replace(mode=0o600))
        assert plot.things[".mcp.json"].mode == 0o600
        plot.apply(mcp(files=SERVER))
        assert plot.things[".mcp.json"].mode == 0o644


class TestSettings:
    PATH = ".claude/settings.json"

    def wanted(self, **settings: object) -> WantedPath:
        return document(self.PATH, settings)

    def now(self, plot: Plot) -> object:
        return json.loads(plot.text(self.PATH))

    def test_a_file_of_our_own_follows_its_sources(self) -> None:
        plot = Plot()
        plot.apply(self.wanted(model="opus", env={"A": "1"}))
        plot.apply(self.wanted(env={"A": "2", "B": "3"}))
        assert self.now(plot) == {"env": {"A": "2", "B": "3"}}
        assert plot.apply() == [f"remove {self.PATH}: no longer needed"]

    def test_keys_of_a_person_stay_and_ours_go_beside_them(self) -> None:
        plot = Plot({self.PATH: '{"theme": "dark", "env": {"B": "2"}}'})
        plot.apply(self.wanted(model="opus", env={"A": "1"}))
        assert self.now(plot) == {"theme": "dark", "env": {"B": "2", "A": "1"}, "model": "opus"}
        plot.apply()
        assert plot.text(self.PATH) == '{"theme": "dark", "env": {"B": "2"}}'

    def test_a_key_that_differs_the_first_time_is_theirs(self) -> None:
        plot = Plot({self.PATH: '{"env": {"A": "mine"}}'})
        assert plot.apply(self.wanted(env={"A": "ours"})) == [
            f"keep {self.PATH}: `env.A`: {FOREIGN}"
        ]
        assert self.now(plot) == {"env": {"A": "mine"}}

    def test_a_key_of_ours_that_was_changed_is_theirs_from_then_on(self) -> None:
        plot = Plot()
        plot.apply(self.wanted(model="opus", env={"A": "1"}))
        plot.put(self.PATH, '{"model": "mine", "env": {"A": "1"}}')
        kept = f"keep {self.PATH}: `model`: {EDITED}"
        assert kept in plot.apply(self.wanted(model="haiku", env={"A": "2"}))
        assert self.now(plot) == {"model": "mine", "env": {"A": "2"}}
        plot.apply()
        assert self.now(plot) == {"model": "mine"}

    def test_force_gives_every_key_its_value_of_ours(self) -> None:
        plot = Plot()
        plot.apply(self.wanted(model="opus", env={"A": "1"}))
        plot.put(self.PATH, '{"model": "mine", "env": {"A": "mine", "B": "mine"}}')
        plot.apply(self.wanted(model="opus", env={"A": "1"}), force=True)
        assert self.now(plot) == {"model": "opus", "env": {"A": "1", "B": "mine"}}

    def test_an_adopted_key_is_silent_until_the_source_changes(self) -> None:
        plot = Plot({self.PATH: '{"model": "mine"}'})
        assert plot.apply(self.wanted(model="opus"), adopt=True) == []
        assert plot.apply(self.wanted(model="opus")) == []
        assert plot.apply(self.wanted(model="haiku")) == [f"keep {self.PATH}: `model`: {FOREIGN}"]

    def test_hooks_are_united(self) -> None:
        mine = {"matcher": "Bash", "hooks": [{"type": "command", "command": "mine"}]}
        ours = {"matcher": "Bash", "hooks": [{"type": "command", "command": "ours"}]}
        plot = Plot({self.PATH: json.dumps({"hooks": {"PreToolUse": [mine]}})})
        plot.apply(self.wanted(hooks={"PreToolUse": [ours]}))
        assert self.now(plot) == {"hooks": {"PreToolUse": [mine, ours]}}
        plot.put(self.PATH, plot.text(self.PATH) + "\n")
        plot.apply()
        assert self.now(plot) == {"hooks": {"PreToolUse": [mine]}}

    def test_a_deleted_file_is_written_anew(self) -> None:
        plot = Plot()
        plot.apply(self.wanted(model="opus"))
        plot.things.clear()
        plot.apply(self.wanted(model="opus"))
        assert self.now(plot) == {"model": "opus"}


class TestWhatCannotBeMerged:
    @pytest.mark.parametrize(
        "data", [b'{"a": ', b"[1]", b'{"mcpServers": []}', b"\xff\xfe{}"], ids=repr
    )
    def test_a_file_that_cannot_be_parsed_is_left_alone_and_placed(self, data: bytes) -> None:
        plot = Plot({".mcp.json": Thing(FILE, data)})
        out = plot.plan(mcp(files=SERVER), force=True)
        assert said(out) == ["keep .mcp.json: cannot be parsed"]
        (problem,) = out.problems
        assert (problem.code, problem.is_error) == ("unparsable-target", True)
        assert problem.place is not None
        assert problem.place.file == ".mcp.json"
        assert problem.place.line == 1
        assert out.records == {}

    def test_a_file_that_was_broken_since_is_ours_until_it_is_mended(self) -> None:
        plot = Plot({".mcp.json": MINE})
        plot.apply(mcp(files=SERVER))
        good = plot.text(".mcp.json")
        plot.put(".mcp.json", good[:-2])
        for wanted in ([mcp(files=OTHER)], []):
            assert plot.apply(*wanted) == ["keep .mcp.json: cannot be parsed"]
            assert plot.text(".mcp.json") == good[:-2]
        plot.put(".mcp.json", good)
        plot.apply()
        assert servers(plot) == {"mine": {"command": "mine"}}

    @pytest.mark.parametrize("thing", [link_to("/elsewhere"), FOLDER], ids=["link", "directory"])
    def test_nothing_but_a_file_is_merged_into(self, thing: Thing) -> None:
        plot = Plot({".mcp.json": thing})
        (line,) = plot.apply(mcp(files=SERVER), force=True)
        assert line.startswith("keep .mcp.json: ")
        assert plot.things[".mcp.json"] == thing

    def test_a_persons_link_where_a_link_of_ours_was_is_theirs(self) -> None:
        plot = Plot()
        plot.apply(link(".mcp.json", "/ours"))
        plot.put(".mcp.json", link_to("/mine"))
        assert plot.apply(mcp(files=SERVER)) == ["keep .mcp.json: a symlink is in the way"]
        assert plot.things[".mcp.json"] == link_to("/mine")

    def test_a_linked_parent_is_a_problem(self) -> None:
        plot = Plot({".claude": link_to("/elsewhere")})
        out = plot.plan(document(".claude/settings.json", {"a": 1}))
        assert [problem.code for problem in out.problems] == ["symlinked-target"]


class TestWholeFilesWithServers:
    """An overlay has the provider's file, and servers go into it."""

    PATH = ".codex/config.toml"

    def wanted(self, text: str = 'model = "o3"\n') -> WantedPath:
        servers = {"files": SERVER}
        one = document(self.PATH, servers=servers, shape=CODEX)
        whole = text + '\n[mcp_servers.files]\ncommand = "npx"\nargs = ["files"]\n'
        return file(self.PATH, whole)._replace(shape=one.shape, entries=one.entries)

    def test_it_is_one_file_of_ours_that_is_known_for_its_servers(self) -> None:
        plot = Plot()
        assert plot.apply(self.wanted()) == [f"write {self.PATH}"]
        assert sorted(plot.held[self.PATH].entries or ()) == ["files"]
        assert plot.apply(self.wanted()) == []
        plot.apply()
        assert plot.things == {}

    def test_where_a_person_has_one_theirs_is_kept_and_gets_the_servers(self) -> None:
        plot = Plot({self.PATH: 'model = "mine"\n'})
        assert plot.apply(self.wanted()) == [
            f"keep {self.PATH}: {FOREIGN}",
            f"merge {self.PATH}: servers: files",
        ]
        assert plot.text(self.PATH).startswith('model = "mine"\n')
        assert "npx" in plot.text(self.PATH)
        assert plot.apply(self.wanted()) == [f"keep {self.PATH}: {FOREIGN}"]
        plot.apply()
        assert plot.text(self.PATH) == 'model = "mine"\n'

    def test_adopted_it_is_silent_and_its_servers_are_still_ours(self) -> None:
        plot = Plot({self.PATH: 'model = "mine"\n'})
        assert plot.apply(self.wanted(), adopt=True) == [f"merge {self.PATH}: servers: files"]
        assert plot.apply(self.wanted()) == []
        assert plot.apply(self.wanted('model = "o4"\n')) == [f"keep {self.PATH}: {FOREIGN}"]
        plot.apply()
        assert plot.text(self.PATH) == 'model = "mine"\n'

    def test_a_file_that_only_held_our_servers_becomes_the_overlays(self) -> None:
        plot = Plot()
        plot.apply(document(self.PATH, servers={"files": SERVER}, shape=CODEX))
        (line,) = plot.apply(self.wanted())
        assert line.startswith(f"write {self.PATH}")
        assert plot.text(self.PATH).startswith('model = "o3"\n')

    def test_the_overlays_file_becomes_one_that_only_holds_servers(self) -> None:
        plot = Plot()
        plot.apply(self.wanted())
        plot.apply(document(self.PATH, servers={"files": SERVER}, shape=CODEX))
        assert "model" not in plot.text(self.PATH)
        plot.apply()
        assert plot.things == {}


class TestCoveredDocuments:
    def test_a_tracked_file_gets_our_keys_and_is_given_back(self) -> None:
        plot = Plot({".mcp.json": MINE}, tracked=[".mcp.json"], coverable=[".mcp.json"])
        plot.apply(mcp(files=SERVER))
        assert plot.held[".mcp.json"].covers
        plot.apply(mcp(files=OTHER))
        assert plot.held[".mcp.json"].covers
        plot.apply()
        assert plot.text(".mcp.json") == MINE

    def test_a_covering_file_that_becomes_shared_still_uncovers_what_is_under_it(self) -> None:
        plot = Plot({".mcp.json": "tracked"}, tracked=[".mcp.json"], coverable=[".mcp.json"])
        plot.originals[".mcp.json"] = (b"tracked", 0o644)
        plot.apply(file(".mcp.json", "{}"))
        plot.apply(mcp(files=SERVER))
        assert plot.held[".mcp.json"].covers
        plot.apply()
        assert plot.text(".mcp.json") == "tracked"
