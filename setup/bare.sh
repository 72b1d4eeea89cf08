#!/bin/sh
# Run the README's two commands on a bare Debian: as root, then as a plain user with LANG=C.
#
#   [SUITE=bookworm|trixie|sid] [ROOT=dir] [ONLY=chat|test] [WHO=root|user] sh setup/bare.sh
#
# Bare is debootstrap's minbase with python3, make and git. ROOT keeps that for other runs, which
# work on a copy of it. First a plain user must be told the one line that helps, with nothing left
# behind; then root's run installs that. The tree is that of the last commit. From this machine the
# root gets what the network needs: resolver, proxies, pip's configuration, certificates.
#
# All of it happens in namespaces of its own: however it ends, the kernel takes down every mount
# and process. Exit code 77: it cannot be done on this machine, and the last line says why.
set -eu
suite=${SUITE:-bookworm}
bring=python3,make,git
question='How many unread messages are in the inbox?'

say() { echo "bare $suite: $*" >&2; }

cannot() {
    say "cannot be done here: $*"
    exit 77
}

fail() {
    say "FAILED: $*"
    exit 1
}

# Outside: what it takes, and the directory that goes when it ends.
outside() {
    case ${ONLY:-chat}:${WHO:-root} in
        chat:root | chat:user | test:root | test:user) ;;
        *) fail "ONLY is chat or test, WHO is root or user" ;;
    esac
    [ "$(id -u)" = 0 ] || cannot "only root can make a root"
    unshare --mount --pid --fork true 2>/dev/null || cannot "no namespaces (unshare)"
    if ! command -v debootstrap >/dev/null 2>&1; then
        { apt-get -q update && apt-get -q -y install debootstrap; } >/dev/null 2>&1 ||
            cannot "no debootstrap, and no apt that brings it"
    fi
    work=$(mktemp -d "${TMPDIR:-/var/tmp}/bare.XXXXXX")
    namespace=
    trap leave EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM HUP
    # A checkout that root reads for somebody else is still the one to try.
    export GIT_CONFIG_GLOBAL="$work/gitconfig"
    printf '[safe]\n\tdirectory = *\n' >"$GIT_CONFIG_GLOBAL"
    git rev-parse -q --verify HEAD >/dev/null 2>&1 || cannot "no commit to try (git)"
    # Killed when we are; it takes the first process of its namespace with it, and that one all.
    setpriv --pdeathsig KILL unshare --mount --pid --fork --kill-child --mount-proc \
        sh "$0" inside "$work" &
    namespace=$!
    wait "$namespace"
}

leave() {
    if [ -n "$namespace" ] && kill -KILL "$namespace" 2>/dev/null; then
        wait "$namespace" 2>/dev/null || true
    fi
    # The last process may still be about to go.
    rm -rf "$work" 2>/dev/null || { sleep 1 && rm -rf "$work"; }
}

# Inside: the first process of its namespaces.
inside() {
    work=$1
    root=$work/root
    if [ -z "${ROOT:-}" ]; then
        make_root "$root"
    else
        [ -e "$ROOT" ] || make_root "$ROOT"
        cp -a "$ROOT" "$root"
    fi
    furnish
    settle root
    settle user
    meet_bare
    for who in ${WHO:-root user}; do
        [ "${WHO:-}" != user ] || enter root sh setup/system.sh "${ONLY:-test}"
        [ "${ONLY:-chat}" != chat ] || try_chat "$who"
        [ "${ONLY:-test}" != test ] || try_test "$who"
    done
}

# DIRECTORY: make a bare system there, whole or not at all.
make_root() {
    say "debootstrap, minbase with $bring"
    rm -rf "$1.part"
    debootstrap --variant=minbase --include="$bring" "$suite" "$1.part" >"$work/log" 2>&1 || {
        tail -n 5 "$work/log" >&2
        cannot "debootstrap did not make it"
    }
    mv "$1.part" "$1"
}

# Give the root what a system has that was started, and the network of this one.
furnish() {
    mount -t proc proc "$root/proc"
    mount --rbind /dev "$root/dev"
    mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
    lend /etc/resolv.conf /etc/resolv.conf
    lend /etc/hosts /etc/hosts
    # pip reads both, and the second has the last word.
    lend /etc/pip.conf /etc/xdg/pip/pip.conf
    lend "$HOME/.pip/pip.conf" /etc/pip.conf
    lend "${XDG_CONFIG_HOME:-$HOME/.config}/pip/pip.conf" /etc/pip.conf
    # Certificates and local packages that are named there.
    for file in /usr/local/share/ca-certificates/*; do
        lend "$file" "$file"
    done
    { network && cat "$root/etc/xdg/pip/pip.conf" "$root/etc/pip.conf" 2>/dev/null; } |
        grep -o '/[^ =,:"]*' | sort -u | while read -r path; do
        # Beside a local index lie the files that it points to.
        [ "${path##*/}" != simple ] || path=${path%/*}
        if [ -d "$path" ] && [ ! -e "$root$path" ]; then
            mkdir -p "$root$path"
            mount --bind -o ro "$path" "$root$path"
        fi
        lend "$path" "$path"
    done
    chroot "$root" useradd --create-home --shell /bin/sh user
}

# FILE PATH: have a copy of it in the root, if there is one.
lend() {
    if [ -f "$1" ] && [ -s "$1" ]; then
        mkdir -p "$root${2%/*}"
        cp -L "$1" "$root$2"
    fi
}

# What the environment says about the network, as NAME=VALUE lines.
network() {
    env | grep -E '^(PIP_|(https?|ftp|all|no)_proxy=|(HTTPS?|FTP|ALL|NO)_PROXY=|SSL_CERT_FILE=|REQUESTS_CA_BUNDLE=|NODE_EXTRA_CA_CERTS=|npm_config_)' || true
}

# WHO: have the last commit, as they would clone it.
settle() {
    git clone --quiet --depth 1 "file://$PWD" "$root$(home_of "$1")/sightline"
    chroot "$root" chown -R "$1:" "$(home_of "$1")"
}

home_of() { chroot "$root" getent passwd "$1" | cut -d : -f 6; }

# WHO COMMAND…: run it in their clone, with nothing of our environment but the network.
enter() {
    name=$1
    shift
    set -- sh -c 'cd "$HOME/sightline" && exec "$@"' sh "$@"
    while read -r setting; do
        [ -z "$setting" ] || set -- "$setting" "$@"
    done <<END
$(network)
END
    # A shell's background ignores SIGINT, and so would all that is started from here.
    chroot --userspec="$name:$name" "$root" env --default-signal -i LANG=C HOME="$(home_of "$name")" USER="$name" \
        PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$@"
}

# Nothing is installed yet: a plain user is told what to do, and nothing is left behind.
meet_bare() {
    say "plain user, nothing installed: make chat"
    if told=$(enter user make chat 2>&1 </dev/null); then
        fail "make chat went on without what the system lacks"
    fi
    echo "$told"
    echo "$told" | grep -q -x 'sudo apt-get install -y libgomp1 python3-venv' ||
        fail "the line that helps was not printed"
    left=$(enter user git status --porcelain --ignored)
    [ -z "$left" ] || fail "left behind: $left"
}

try_chat() {
    say "$1: echo '$question' | make chat"
    began=$(date +%s)
    answer=$(echo "$question" | enter "$1" make chat) || fail "$1: make chat"
    [ -n "$answer" ] || fail "$1: make chat answered nothing"
    echo "$answer"
    # Nobody has a package cache here, so this is what a newcomer waits and gives up of the disk.
    say "$1: answered after $(($(date +%s) - began)) s; the environment has $(enter "$1" du -sm .venv | cut -f 1) MB"
}

try_test() {
    say "$1: make test"
    enter "$1" make test </dev/null || fail "$1: make test"
}

# Leaves at once: a shell reads on behind the last command, in a file that may have changed.
case ${1:-} in
    inside) inside "$2"; exit ;;
    *) outside; exit ;;
esac
