#!/bin/sh
# Two minutes with the example city: `make demo`. Works in a scratch directory and removes it.
set -eu

scratch=$(mktemp -d "${TMPDIR:-/tmp}/city-demo.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' INT TERM
unset CITY_ROOT
HOME=$scratch XDG_STATE_HOME=$scratch/state XDG_CONFIG_HOME=$scratch/config
export HOME XDG_STATE_HOME XDG_CONFIG_HOME
cd "$scratch"

if [ -t 1 ] && [ -z "${NO_COLOR:-}" ] && [ "${TERM:-dumb}" != dumb ]; then
  bold=$(printf '\033[1m') blue=$(printf '\033[36m') plain=$(printf '\033[0m')
else
  bold='' blue='' plain=''
fi

say() { printf '\n%s%s%s\n\n' "$bold" "$*" "$plain"; }

typed() { printf '%s$ %s%s\n' "$blue" "$*" "$plain"; }

# Print a command as a person would type it, then run it. A command that fails ends the demo.
show() {
  typed "$@"
  "$@" 2>&1
}

say "1. A city is a directory. This one is a small observatory with two projects."
show city init --example hilltop
show cd hilltop

say "2. Its agents are folders: your own, those of an imported pack, and the built-in ones."
show city agent list

say "3. Patches change somebody else's agent: its pack has one for the tester, let us add two."
show city agent set quality.tester idle_timeout=20m
show city agent set dome/quality.tester idle_timeout=45m

say "   Why does the tester wait 45 minutes in dome? The winner first, then what it covers."
show city agent explain dome/tester idle_timeout

say "4. What is the reviewer told? Names filled in, shared texts included, each part with its source."
show city agent show dome/reviewer --rendered --budget

say "5. Files, skills and MCP servers, each written once. What would the planner find where it works?"
show city plan planner
say "   Do it, ask again, take it back. What a person has changed stays, and is named."
show city apply planner
show city plan planner
typed "echo 'Ask Ada first.' >> .gc/work/planner/CLAUDE.md"
echo 'Ask Ada first.' >>.gc/work/planner/CLAUDE.md
show city plan planner
show city undo planner

say "6. Mistakes are found before anything runs, all of them, with the place."
mkdir agents/porter
cat >agents/porter/agent.toml <<'TOML'
description = "Opens the gate."
provider = "codx"
max_active_sesions = 2
TOML
show cat agents/porter/agent.toml
show city check || true

say "Where to look next"
cat <<'END'
  city init my-city            a city of your own (here: . .venv/bin/activate first)
  docs/tutorial/index.md       the same walk, slower
  docs/how-to/                 agents, packs, rigs, working directories, providers, editing
  docs/reference/errors.md     every problem, with an example
END
