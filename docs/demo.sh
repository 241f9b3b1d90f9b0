#!/bin/sh
# Under a minute with the example city: `make demo`. Works in a scratch directory and removes it.
set -eu

scratch=$(mktemp -d "${TMPDIR:-/tmp}/city-demo.XXXXXX")
leave() {
  [ ! -d "$scratch/hilltop" ] || city --city "$scratch/hilltop" stop --force >/dev/null 2>&1 || true
  rm -rf "$scratch"
}
trap leave EXIT
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

done_so_far() { city work list --status done --json | grep -c '"id"'; }

# Half-way through, kill the controller as a crash would; then start another.
interrupt() {
  while [ "$(done_so_far)" -lt 8 ]; do sleep 0.2; done
  kill -9 "$(cut -d ' ' -f 1 .gc/controller.lock)"
  sleep 1
  city start >/dev/null
}

say "1. A city is a directory, its agents are folders. This is a small observatory."
show city init --example hilltop
show cd hilltop
show city agent list

say "2. Why is a setting as it is? The winner first, then what it covers."
show city agent set dome/quality.tester idle_timeout=45m
show city agent explain dome/tester idle_timeout

say "3. Files, skills and MCP servers, each written once. What would the planner get?"
show city plan planner
show city apply planner
show city undo planner

say "4. To work. The shell agent runs scripts: no model needed. Give it five places."
show city agent set shell max_active_sessions=5

say "   Twenty items. They are kept before sling returns; nothing has to run yet."
typed 'city sling shell "# Count the stars of field N …" --no-start   # twenty times'
field=1
while [ $field -le 20 ]; do
  city sling shell --no-start "# Count the stars of field $field
sleep 1; echo field $field: $((field * 1013)) stars" >slung
  field=$((field + 1))
done
cat slung

say "5. The pool grows and drains. Its controller is killed; another takes over."
show city start
typed "city status --watch --until-idle"
interrupt &
city status --watch --until-idle
wait

say "6. What came of it: everything done, each item once, and nothing left running."
show city status
show city work show w-20
show city events --type controller.started
show city stop

say "Where to look next"
cat <<'END'
  . .venv/bin/activate       to have `city` in this shell
  city init ~/my-city        a city of your own
  city sling claude "…"      the same with a model, if you have its program
  docs/tutorial/index.md     the same walk, slower
  docs/how-to/               sessions, work, packs, rigs, providers and more
  docs/reference/errors.md   every problem, with an example
END
