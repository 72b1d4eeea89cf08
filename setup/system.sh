#!/bin/sh
# Look for what the system lacks, before anything is downloaded or made.
#
#   sh setup/system.sh chat|test [PYTHON] [VENV]
#
# As root with apt it installs that. Otherwise it prints the one line that does, and exits with 1.
# `test` needs more than `chat`: git, a library of the browser driver's, and a browser, a
# sandbox, a database and a broker, without which only the tests in one are skipped. A VENV that is ready needs nothing to be made with.
set -eu
purpose=${1:?usage: system.sh chat|test [PYTHON] [VENV]}
python=${2:-python3}
venv=${3:-.venv}
made=
if [ -e "$venv/.ready" ]; then
    made=yes
    python=$venv/bin/python
fi

# The embedded model's runtime and the browser driver's node are linked to libraries that their
# wheels do not bring. We load them as they do: the loader's own list is often not on a plain
# user's path, and knows nothing of LD_LIBRARY_PATH.
probe='
import sys

if sys.version_info < (3, 11):
    sys.exit("sightline needs Python 3.11 or newer; point PYTHON=… at one")
purpose, made = sys.argv[1:]
if not made:
    try:
        import ensurepip, venv
        ensurepip.version()
    except Exception:
        print("ensurepip")
if sys.platform == "linux":
    try:
        from ctypes import CDLL
    except ImportError:  # a Python that was built without it cannot tell
        sys.exit(0)
    for name in ["libgomp.so.1", "libstdc++.so.6"] + ["libatomic.so.1"] * (purpose == "test"):
        try:
            CDLL(name)
        except OSError:
            print(name)
'

missing() {
    if command -v "$python" >/dev/null 2>&1; then
        "$python" -c "$probe" "$purpose" "$made" || exit 1
    else
        echo python
    fi
    # Apple's git may be a stub that only asks for the rest of itself: being there is not enough.
    [ "$purpose" = chat ] || git --version >/dev/null 2>&1 || echo git
}

lacks_browser() {
    [ "$purpose" = test ] && ! [ -x "$venv/browser/chromium" ] &&
        ! command -v chromium >/dev/null 2>&1 &&
        ! command -v chromium-browser >/dev/null 2>&1 &&
        ! command -v google-chrome >/dev/null 2>&1
}

lacks_database() {
    [ "$purpose" = test ] && ! command -v initdb >/dev/null 2>&1 &&
        ! [ -x "$(echo /usr/lib/postgresql/*/bin/initdb | cut -d ' ' -f 1)" ]
}

lacks_broker() { [ "$purpose" = test ] && ! command -v nats-server >/dev/null 2>&1; }

lacks_sandbox() { [ "$purpose" = test ] && ! command -v bwrap >/dev/null 2>&1; }

# Ubuntu's apt has none: there it is a snap.
apt_has_chromium() { apt-cache policy chromium 2>/dev/null | grep -q 'Candidate: [0-9]'; }

# What brings a thing: Debian and Ubuntu, Fedora, macOS.
packages_of() {
    case $1 in
        python) echo python3 python3 python ;;
        ensurepip)
            case ${python##*/} in
                python3.*) echo "${python##*/}-venv" "${python##*/}" "${python##*/}" ;;
                *) echo python3-venv python3 python ;;
            esac
            ;;
        libgomp.so.1) echo libgomp1 libgomp - ;;
        libstdc++.so.6) echo libstdc++6 libstdc++ - ;;
        libatomic.so.1) echo libatomic1 libatomic - ;;
        git) echo git git git ;;
        browser) echo chromium chromium - ;;
    esac
}

# COLUMN THING…: the packages that bring the things, each once.
packages() {
    column=$1
    shift
    for thing in "$@"; do
        packages_of "$thing" | cut -d ' ' -f "$column"
    done | grep -v -x -e - | sort -u | tr '\n' ' ' | sed 's/ $//'
}

debian() { echo "sudo apt-get install -y $(packages 1 "$@")"; }
fedora() { echo "sudo dnf install -y $(packages 2 "$@")"; }
macos() { echo "brew install $(packages 3 "$@")"; }

# Quiet unless it fails: its last words say why.
apt() {
    told=$(DEBIAN_FRONTEND=noninteractive apt-get -q "$@" 2>&1) || {
        echo "$told" | tail -n 3 >&2
        return 1
    }
}

# THING…: say what is missing, and the line that brings it.
tell() {
    echo "the system lacks: $*" >&2
    if [ "$(uname -s)" = Darwin ]; then
        macos "$@"
    elif command -v apt-get >/dev/null 2>&1; then
        debian "$@"
    elif command -v dnf >/dev/null 2>&1; then
        fedora "$@"
    else
        echo "Debian, Ubuntu: $(debian "$@")"
        echo "Fedora: $(fedora "$@")"
    fi >&2
}

found=$(missing)
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    if [ -n "$found" ] || lacks_browser || lacks_sandbox || lacks_database || lacks_broker; then
        apt update || true # one broken source of many is no reason to stop
    fi
    if [ -n "$found" ]; then
        echo "installing what the system lacks: $(packages 1 $found)" >&2
        apt install -y --no-install-recommends $(packages 1 $found) && found=$(missing)
    fi
    if lacks_browser && apt_has_chromium; then
        echo "installing a browser for the tests: chromium" >&2
        apt install -y --no-install-recommends chromium || true
    fi
    if lacks_sandbox; then
        echo "installing a sandbox for the tests: bubblewrap" >&2
        apt install -y --no-install-recommends bubblewrap || true
    fi
    if lacks_database; then
        echo "installing a database for the tests: postgresql" >&2
        # Its programs are enough: no server of the system's is made and started.
        if [ ! -e /etc/postgresql-common/createcluster.conf ]; then
            mkdir -p /etc/postgresql-common
            echo 'create_main_cluster = false' >/etc/postgresql-common/createcluster.conf
        fi
        apt install -y --no-install-recommends postgresql || true
    fi
    if lacks_broker; then
        echo "installing a broker for the tests: nats-server" >&2
        # Its program is enough: no server of the system's is started.
        if [ ! -e /etc/systemd/system/nats-server.service ]; then
            mkdir -p /etc/systemd/system
            ln -s /dev/null /etc/systemd/system/nats-server.service
        fi
        apt install -y --no-install-recommends nats-server || true
    fi
fi
[ -z "$found" ] && exit
if lacks_browser && ! { command -v apt-get >/dev/null 2>&1 && ! apt_has_chromium; }; then
    found="$found browser"
fi
tell $found
exit 1
