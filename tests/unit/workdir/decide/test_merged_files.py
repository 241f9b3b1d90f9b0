"""In files that are shared with a person we own single keys, and nothing else changes."""

import json
from collections.abc import Mapping

import pytest

from gascity.model.wanted import FILE, WantedPath
from tests.support.disk_state import (
    CODEX,
    FOLDER,
    FakeDirectory,
    Thing,
    document,
    file,
    link,
    link_to,
    step_lines,
)

EDITED = "modified locally"
FOREIGN = "not managed by city"
SERVER = {"command": "npx", "args": ["files"]}
OTHER = {"command": "uvx"}
MINE = '{\n  // mine\n  "mcpServers": {\n    "mine": {"command": "mine"}\n  }\n}\n'


def servers(directory: FakeDirectory, path: str = ".mcp.json") -> dict[str, object]:
    lines = [
        line for line in directory.text(path).splitlines() if not line.lstrip().startswith("//")
    ]
    return dict(json.loads("\n".join(lines)).get("mcpServers", {}))


def mcp(**wanted: Mapping[str, object]) -> WantedPath:
    return document(".mcp.json", servers=wanted)


class TestServers:
    def test_a_created_file_is_removed_with_its_last_server(self) -> None:
        directory = FakeDirectory()
        assert directory.apply(mcp(files=SERVER)) == ["merge .mcp.json: servers: files"]
        assert servers(directory) == {"files": SERVER}
        assert directory.apply(mcp(files=SERVER)) == []
        assert directory.apply() == ["remove .mcp.json: no longer needed"]
        assert directory.things == {}
        assert directory.held == {}

    def test_a_users_file_keeps_all_other_content(self) -> None:
        directory = FakeDirectory({".mcp.json": MINE})
        directory.apply(mcp(files=SERVER))
        assert servers(directory) == {"mine": {"command": "mine"}, "files": SERVER}
        assert "// mine" in directory.text(".mcp.json")
        directory.apply()
        assert directory.text(".mcp.json") == MINE

    @pytest.mark.parametrize(
        "text",
        ["", "{}", "\n", '{"mcpServers":{}}', '{"mcpServers": {}, "a": [ 1,2 ]}', "\ufeff{ }\r\n"],
        ids=repr,
    )
    @pytest.mark.parametrize("mode", [0o644, 0o600, 0o664], ids=oct)
    def test_a_file_that_only_city_changed_is_restored_byte_for_byte(
        self, text: str, mode: int
    ) -> None:
        before = Thing(FILE, text.encode(), mode)
        directory = FakeDirectory({".mcp.json": before})
        directory.apply(mcp(files=SERVER, more=OTHER)._replace(mode=0o600))
        directory.apply(mcp(files=OTHER))
        assert directory.apply(mcp(files=OTHER)) == []
        directory.apply()
        assert directory.things[".mcp.json"] == before

    def test_keys_that_the_user_added_meanwhile_stay(self) -> None:
        directory = FakeDirectory({".mcp.json": MINE})
        directory.apply(mcp(files=SERVER))
        directory.put(
            ".mcp.json", directory.text(".mcp.json").replace("// mine", "// mine, and more")
        )
        directory.apply(mcp(files=OTHER))
        directory.apply()
        assert "// mine, and more" in directory.text(".mcp.json")
        assert servers(directory) == {"mine": {"command": "mine"}}

    def test_a_server_of_the_same_name_is_taken_over_and_put_back(self) -> None:
        directory = FakeDirectory({".mcp.json": '{"mcpServers": {"files": {"command": "mine"}}} '})
        directory.apply(mcp(files=SERVER))
        assert servers(directory) == {"files": SERVER}
        directory.put(".mcp.json", directory.text(".mcp.json") + "\n")
        directory.apply(mcp(more=OTHER))
        assert servers(directory) == {"files": {"command": "mine"}, "more": OTHER}

    def test_the_first_server_in_a_persons_file_asks_for_a_copy_of_it(self) -> None:
        directory = FakeDirectory({".mcp.json": MINE})
        assert directory.do(directory.plan(mcp(files=SERVER))).snapshots == [".mcp.json"]
        assert directory.plan(mcp(files=OTHER, more=SERVER)).snapshots == []

    def test_no_snapshot_is_taken_of_a_file_that_apply_created(self) -> None:
        directory = FakeDirectory()
        assert directory.do(directory.plan(document(".mcp.json", {"a": 1}))).snapshots == []
        assert (
            directory.plan(document(".mcp.json", {"a": 1}, servers={"x": SERVER})).snapshots == []
        )

    def test_a_server_that_was_edited_is_kept(self) -> None:
        directory = FakeDirectory()
        directory.apply(mcp(files=SERVER, more=OTHER))
        directory.put(".mcp.json", directory.text(".mcp.json").replace("npx", "/mine"))
        kept = f"keep .mcp.json: server `files`: {EDITED}"
        assert directory.apply(mcp(files=OTHER, more=OTHER)) == [kept]
        assert servers(directory)["files"] == {"command": "/mine", "args": ["files"]}
        assert directory.apply(mcp(more=OTHER))[0].endswith(f"no longer needed, but {EDITED}")
        assert "files" in servers(directory)
        assert directory.apply(mcp(more=OTHER)) == []

    def test_force_replaces_an_edited_server(self) -> None:
        directory = FakeDirectory()
        directory.apply(mcp(files=SERVER))
        directory.put(".mcp.json", directory.text(".mcp.json").replace("npx", "/mine"))
        directory.apply(mcp(files=SERVER), force=True)
        assert servers(directory) == {"files": SERVER}

    def test_an_adopted_server_is_silent_until_its_source_changes(self) -> None:
        directory = FakeDirectory()
        directory.apply(mcp(files=SERVER))
        directory.put(".mcp.json", directory.text(".mcp.json").replace("npx", "/mine"))
        assert directory.apply(mcp(files=SERVER), adopt=True) == []
        assert directory.apply(mcp(files=SERVER)) == []
        assert directory.apply(mcp(files=OTHER)) == [f"keep .mcp.json: server `files`: {EDITED}"]

    def test_keys_that_a_provider_adds_to_a_managed_server_stay(self) -> None:
        directory = FakeDirectory()
        directory.apply(mcp(files=SERVER))
        directory.put(
            ".mcp.json", directory.text(".mcp.json").replace('"args"', '"approved": true, "args"')
        )
        assert directory.apply(mcp(files=SERVER)) == []
        directory.apply(mcp(files=OTHER))
        assert servers(directory) == {"files": {"command": "uvx", "approved": True}}

    def test_a_server_that_was_deleted_comes_back(self) -> None:
        directory = FakeDirectory({".mcp.json": MINE})
        directory.apply(mcp(files=SERVER))
        directory.put(".mcp.json", MINE)
        assert directory.apply(mcp(files=SERVER)) == ["merge .mcp.json: servers: files"]

    def test_a_deleted_file_is_created_again_and_then_counts_as_created(self) -> None:
        directory = FakeDirectory({".mcp.json": '{"mcpServers": {"files": {"command": "mine"}}}'})
        directory.apply(mcp(files=SERVER))
        del directory.things[".mcp.json"]
        directory.apply(mcp(files=SERVER))
        assert servers(directory) == {"files": SERVER}
        directory.apply()
        assert directory.things == {}

    def test_a_created_file_stays_if_the_user_wrote_into_it(self) -> None:
        directory = FakeDirectory()
        directory.apply(mcp(files=SERVER))
        directory.put(
            ".mcp.json", directory.text(".mcp.json").replace("{\n", "{\n  // note to self\n", 1)
        )
        directory.apply()
        assert "// note to self" in directory.text(".mcp.json")
        assert "files" not in directory.text(".mcp.json")

    def test_toml_keeps_comments_tables_and_times(self) -> None:
        text = '# mine\nmodel = "o3"\n\n[mcp_servers.files]\ncommand = "mine"\nsince = 2020-01-02\n'
        directory = FakeDirectory({".codex/config.toml": text})
        wanted = document(".codex/config.toml", servers={"files": SERVER}, shape=CODEX)
        directory.apply(wanted)
        assert "# mine" in directory.text(".codex/config.toml")
        assert '"npx"' in directory.text(".codex/config.toml")
        directory.put(".codex/config.toml", directory.text(".codex/config.toml") + "# more\n")
        directory.apply()
        assert "since = 2020-01-02" in directory.text(".codex/config.toml")
        assert "# more" in directory.text(".codex/config.toml")

    def test_a_secret_closes_the_file_and_the_mode_comes_back_without_it(self) -> None:
        directory = FakeDirectory({".mcp.json": Thing(FILE, MINE.encode(), 0o644)})
        directory.apply(mcp(files=SERVER)._replace(mode=0o600))
        assert directory.things[".mcp.json"].mode == 0o600
        directory.apply(mcp(files=SERVER))
        assert directory.things[".mcp.json"].mode == 0o644


class TestSettings:
    PATH = ".claude/settings.json"

    def wanted(self, **settings: object) -> WantedPath:
        return document(self.PATH, settings)

    def now(self, directory: FakeDirectory) -> object:
        return json.loads(directory.text(self.PATH))

    def test_a_created_file_follows_its_sources(self) -> None:
        directory = FakeDirectory()
        directory.apply(self.wanted(model="opus", env={"A": "1"}))
        directory.apply(self.wanted(env={"A": "2", "B": "3"}))
        assert self.now(directory) == {"env": {"A": "2", "B": "3"}}
        assert directory.apply() == [f"remove {self.PATH}: no longer needed"]

    def test_managed_keys_are_added_beside_the_users(self) -> None:
        directory = FakeDirectory({self.PATH: '{"theme": "dark", "env": {"B": "2"}}'})
        directory.apply(self.wanted(model="opus", env={"A": "1"}))
        assert self.now(directory) == {
            "theme": "dark",
            "env": {"B": "2", "A": "1"},
            "model": "opus",
        }
        directory.apply()
        assert directory.text(self.PATH) == '{"theme": "dark", "env": {"B": "2"}}'

    def test_a_key_that_differs_at_the_first_apply_is_the_users(self) -> None:
        directory = FakeDirectory({self.PATH: '{"env": {"A": "mine"}}'})
        assert directory.apply(self.wanted(env={"A": "ours"})) == [
            f"keep {self.PATH}: `env.A`: {FOREIGN}"
        ]
        assert self.now(directory) == {"env": {"A": "mine"}}

    def test_a_managed_key_that_the_user_changed_stays_the_users(self) -> None:
        directory = FakeDirectory()
        directory.apply(self.wanted(model="opus", env={"A": "1"}))
        directory.put(self.PATH, '{"model": "mine", "env": {"A": "1"}}')
        kept = f"keep {self.PATH}: `model`: {EDITED}"
        assert kept in directory.apply(self.wanted(model="haiku", env={"A": "2"}))
        assert self.now(directory) == {"model": "mine", "env": {"A": "2"}}
        directory.apply()
        assert self.now(directory) == {"model": "mine"}

    def test_force_overwrites_every_wanted_key(self) -> None:
        directory = FakeDirectory()
        directory.apply(self.wanted(model="opus", env={"A": "1"}))
        directory.put(self.PATH, '{"model": "mine", "env": {"A": "mine", "B": "mine"}}')
        directory.apply(self.wanted(model="opus", env={"A": "1"}), force=True)
        assert self.now(directory) == {"model": "opus", "env": {"A": "1", "B": "mine"}}

    def test_an_adopted_key_is_silent_until_the_source_changes(self) -> None:
        directory = FakeDirectory({self.PATH: '{"model": "mine"}'})
        assert directory.apply(self.wanted(model="opus"), adopt=True) == []
        assert directory.apply(self.wanted(model="opus")) == []
        assert directory.apply(self.wanted(model="haiku")) == [
            f"keep {self.PATH}: `model`: {FOREIGN}"
        ]

    def test_hooks_are_united(self) -> None:
        mine = {"matcher": "Bash", "hooks": [{"type": "command", "command": "mine"}]}
        ours = {"matcher": "Bash", "hooks": [{"type": "command", "command": "ours"}]}
        directory = FakeDirectory({self.PATH: json.dumps({"hooks": {"PreToolUse": [mine]}})})
        directory.apply(self.wanted(hooks={"PreToolUse": [ours]}))
        assert self.now(directory) == {"hooks": {"PreToolUse": [mine, ours]}}
        directory.put(self.PATH, directory.text(self.PATH) + "\n")
        directory.apply()
        assert self.now(directory) == {"hooks": {"PreToolUse": [mine]}}

    def test_a_deleted_file_is_written_again(self) -> None:
        directory = FakeDirectory()
        directory.apply(self.wanted(model="opus"))
        directory.things.clear()
        directory.apply(self.wanted(model="opus"))
        assert self.now(directory) == {"model": "opus"}


class TestWhatCannotBeMerged:
    @pytest.mark.parametrize(
        "data", [b'{"a": ', b"[1]", b'{"mcpServers": []}', b"\xff\xfe{}"], ids=repr
    )
    def test_a_file_that_cannot_be_parsed_is_left_alone_and_placed(self, data: bytes) -> None:
        directory = FakeDirectory({".mcp.json": Thing(FILE, data)})
        out = directory.plan(mcp(files=SERVER), force=True)
        assert step_lines(out) == ["keep .mcp.json: cannot be parsed"]
        (problem,) = out.problems
        assert (problem.code, problem.is_error) == ("unparsable-target", True)
        assert problem.place is not None
        assert problem.place.file == ".mcp.json"
        assert problem.place.line == 1
        assert out.records == {}

    def test_a_file_that_became_unparsable_stays_managed_until_it_is_fixed(self) -> None:
        directory = FakeDirectory({".mcp.json": MINE})
        directory.apply(mcp(files=SERVER))
        good = directory.text(".mcp.json")
        directory.put(".mcp.json", good[:-2])
        for wanted in ([mcp(files=OTHER)], []):
            assert directory.apply(*wanted) == ["keep .mcp.json: cannot be parsed"]
            assert directory.text(".mcp.json") == good[:-2]
        directory.put(".mcp.json", good)
        directory.apply()
        assert servers(directory) == {"mine": {"command": "mine"}}

    @pytest.mark.parametrize("thing", [link_to("/elsewhere"), FOLDER], ids=["link", "directory"])
    def test_nothing_but_a_file_is_merged_into(self, thing: Thing) -> None:
        directory = FakeDirectory({".mcp.json": thing})
        (line,) = directory.apply(mcp(files=SERVER), force=True)
        assert line.startswith("keep .mcp.json: ")
        assert directory.things[".mcp.json"] == thing

    def test_a_users_link_in_place_of_a_managed_link_is_kept(self) -> None:
        directory = FakeDirectory()
        directory.apply(link(".mcp.json", "/ours"))
        directory.put(".mcp.json", link_to("/mine"))
        assert directory.apply(mcp(files=SERVER)) == ["keep .mcp.json: a symlink is in the way"]
        assert directory.things[".mcp.json"] == link_to("/mine")

    def test_a_linked_parent_is_a_problem(self) -> None:
        directory = FakeDirectory({".claude": link_to("/elsewhere")})
        out = directory.plan(document(".claude/settings.json", {"a": 1}))
        assert [problem.code for problem in out.problems] == ["symlinked-target"]


class TestWholeFilesWithServers:
    """An overlay has the provider's file, and servers go into it."""

    PATH = ".codex/config.toml"

    def wanted(self, text: str = 'model = "o3"\n') -> WantedPath:
        servers = {"files": SERVER}
        one = document(self.PATH, servers=servers, shape=CODEX)
        whole = text + '\n[mcp_servers.files]\ncommand = "npx"\nargs = ["files"]\n'
        return file(self.PATH, whole)._replace(shape=one.shape, entries=one.entries)

    def test_it_is_one_managed_file_whose_record_names_its_servers(self) -> None:
        directory = FakeDirectory()
        assert directory.apply(self.wanted()) == [f"write {self.PATH}"]
        assert sorted(directory.held[self.PATH].entries or ()) == ["files"]
        assert directory.apply(self.wanted()) == []
        directory.apply()
        assert directory.things == {}

    def test_an_existing_file_of_the_user_is_kept_and_gets_the_servers(self) -> None:
        directory = FakeDirectory({self.PATH: 'model = "mine"\n'})
        assert directory.apply(self.wanted()) == [
            f"keep {self.PATH}: {FOREIGN}",
            f"merge {self.PATH}: servers: files",
        ]
        assert directory.text(self.PATH).startswith('model = "mine"\n')
        assert "npx" in directory.text(self.PATH)
        assert directory.apply(self.wanted()) == [f"keep {self.PATH}: {FOREIGN}"]
        directory.apply()
        assert directory.text(self.PATH) == 'model = "mine"\n'

    def test_an_adopted_file_is_not_reported_and_its_servers_stay_managed(self) -> None:
        directory = FakeDirectory({self.PATH: 'model = "mine"\n'})
        assert directory.apply(self.wanted(), adopt=True) == [f"merge {self.PATH}: servers: files"]
        assert directory.apply(self.wanted()) == []
        assert directory.apply(self.wanted('model = "o4"\n')) == [f"keep {self.PATH}: {FOREIGN}"]
        directory.apply()
        assert directory.text(self.PATH) == 'model = "mine"\n'

    def test_a_file_with_only_managed_servers_is_replaced_by_the_overlay(self) -> None:
        directory = FakeDirectory()
        directory.apply(document(self.PATH, servers={"files": SERVER}, shape=CODEX))
        (line,) = directory.apply(self.wanted())
        assert line.startswith(f"write {self.PATH}")
        assert directory.text(self.PATH).startswith('model = "o3"\n')

    def test_the_overlays_file_becomes_one_that_only_holds_servers(self) -> None:
        directory = FakeDirectory()
        directory.apply(self.wanted())
        directory.apply(document(self.PATH, servers={"files": SERVER}, shape=CODEX))
        assert "model" not in directory.text(self.PATH)
        directory.apply()
        assert directory.things == {}


class TestCoveredDocuments:
    def test_a_tracked_file_gets_our_keys_and_is_given_back(self) -> None:
        directory = FakeDirectory(
            {".mcp.json": MINE}, tracked=[".mcp.json"], coverable=[".mcp.json"]
        )
        directory.apply(mcp(files=SERVER))
        assert directory.held[".mcp.json"].covers
        directory.apply(mcp(files=OTHER))
        assert directory.held[".mcp.json"].covers
        directory.apply()
        assert directory.text(".mcp.json") == MINE

    def test_a_covering_file_that_becomes_shared_still_restores_the_tracked_file(self) -> None:
        directory = FakeDirectory(
            {".mcp.json": "tracked"}, tracked=[".mcp.json"], coverable=[".mcp.json"]
        )
        directory.originals[".mcp.json"] = (b"tracked", 0o644)
        directory.apply(file(".mcp.json", "{}"))
        directory.apply(mcp(files=SERVER))
        assert directory.held[".mcp.json"].covers
        directory.apply()
        assert directory.text(".mcp.json") == "tracked"
