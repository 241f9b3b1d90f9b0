"""City with working directories, and shortcuts for plan and apply tests."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.support.command import Ran
from tests.support.in_process import InProcess
from tests.support.snapshots import Picture, picture
from tests.support.trees import build_tree

SKILL = "---\nname: {0}\ndescription: About {0}.\n---\nDo it.\n"


def server(name: str, **more: str) -> str:
    """Return the TOML of an MCP server that runs a program; `more` is its environment."""
    env = "".join(f'{key} = "{value}"\n' for key, value in more.items())
    return f'name = "{name}"\ndescription = "A server."\ncommand = "npx"\nargs = ["{name}"]\n' + (
        f"[env]\n{env}" if env else ""
    )


class Town:
    """City with only the agents a test writes; `town.write({...})` adds sources."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.run = InProcess(root)
        self.write({"city.toml": 'implicit_agents = false\n[workspace]\nprovider = "claude"\n'})

    def write(self, files: Mapping[str, str | bytes]) -> None:
        build_tree(self.root, files)

    def agent(self, name: str, settings: str = "", **files: str) -> None:
        """Write an agent with its own directory; `**{"overlay/x": "..."}` are its files."""
        home = f"agents/{name}"
        self.write({f"{home}/prompt.md": f"You are {name}.\n", f"{home}/agent.toml": settings})
        self.write({f"{home}/{path}": text for path, text in files.items()})

    def rig(self, path: str = "rigs/dock", name: str = "dock") -> Path:
        """Declare a rig; the caller creates its directory."""
        with (self.root / "city.toml").open("a") as file:
            file.write(f'[[rigs]]\nname = "{name}"\n')
        with (self.root / "city.local.toml").open("a") as file:
            file.write(f'[[rigs]]\nname = "{name}"\npath = "{path}"\n')
        return self.root / path

    def remove(self, path: str) -> None:
        place = self.root / path
        shutil.rmtree(place) if place.is_dir() else place.unlink()

    def fine(self, *arguments: str) -> Ran:
        """Run a command that must succeed."""
        done = self.run(*arguments)
        assert done.code == 0, done.out + done.err
        return done

    def rows(self, *arguments: str) -> dict[str, dict[str, Any]]:
        """Return the agents of a JSON result by name."""
        return {row["name"]: row for row in self.run(*arguments, "--json").json["agents"]}

    def steps(self, *arguments: str) -> list[str]:
        """Return plan steps such as `write CLAUDE.md`, for one agent or all."""
        return [
            f"{step['op']} {step['path']}"
            for row in self.rows("plan", *arguments).values()
            for step in row["steps"]
        ]

    def seen(self, path: str) -> Picture:
        return picture(self.root / path)
