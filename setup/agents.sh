#!/bin/sh
# Install the agents and SDKs of tests/clients/package-lock.json: 960 MB, once for each lock.
# Prints nothing if they are installed. Never fails: without them their tests are skipped.
dir=${1:?usage: agents.sh DIRECTORY}
lock=tests/clients/package-lock.json

cmp -s "$lock" "$dir/.installed" && exit 0
skipped() { echo "agent tests: $1; they will be skipped"; exit 0; }
case $(uname -sm) in "Linux x86_64") ;; *) skipped "the lock has the agents for Linux on x86-64 only" ;; esac
command -v npm >/dev/null 2>&1 || skipped "no npm here"
echo "agent tests: installing Claude Code, Codex, opencode and the AI SDK"
rm -rf "$dir" && mkdir -p "$dir" && cp tests/clients/package.json "$lock" "$dir" || skipped "no room for them"
npm ci --prefix "$dir" --silent --ignore-scripts --no-fund --no-audit >/dev/null 2>&1 || skipped "npm cannot get them"
cp "$lock" "$dir/.installed"
exit 0
