#!/bin/sh
# Tour of the example city in under a minute: `make demo`. Uses a temporary directory and removes it.
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

# Print a command as a user would type it, then run it. A failing command ends the demo.
show() {
  typed "$@"
  "$@" 2>&1
}

done_so_far() { city work list --status done --json | grep -c '"id"'; }

# Halfway through, kill the controller as a crash would, then start another one.
interrupt() {
  while [ "$(done_so_far)" -lt 8 ]; do sleep 0.2; done
  kill -9 "$(cut -d ' ' -f 1 .gc/controller.lock)"
  sleep 1
  city start >/dev/null
}

say "1. A city is a directory of agents. This example is a small observatory."
show city init --example hilltop
show cd hilltop
show city agent list

say "2. Explain a setting: the effective value first, then the values it overrides."
show city agent set dome/quality.tester idle_timeout=45m
show city agent explain dome/tester idle_timeout

say "3. Configure a working directory: files, skills and MCP servers in the tool's own format."
show city plan planner
show city apply planner
show city undo planner

say "4. Assign work. The shell agent runs scripts and needs no model. Allow five sessions."
show city agent set shell max_active_sessions=5

say "   Queue twenty work items. They are saved before sling returns; nothing runs yet."
typed 'city sling shell "# Count the stars of field N …" --no-start   # twenty times'
field=1
while [ $field -le 20 ]; do
  city sling shell --no-start "# Count the stars of field $field
sleep 1; echo field $field: $((field * 1013)) stars" >queued
  field=$((field + 1))
done
cat queued

say "5. Start sessions, kill the controller halfway, and let another one take over."
show city start
typed "city status --watch --until-idle"
interrupt &
city status --watch --until-idle
wait

say "6. The result: all work items done, each exactly once, and nothing left running."
show city status
show city work show w-20
show city events --type controller.started
show city stop

say "Next steps"
cat <<'END'
  . .venv/bin/activate       put `city` on the PATH of this shell
  city init ~/my-city        create your own city
  city sling claude "…"      assign work to a model (needs Claude Code)
  docs/tutorial/index.md     the same tour with explanations
  docs/how-to/               sessions, work, packs, rigs, providers and more
  docs/reference/errors.md   every problem code with an example
END
