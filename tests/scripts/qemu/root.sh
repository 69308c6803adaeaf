# shellcheck shell=bash disable=SC2154 # variables of the files before, and of the script: suite, root, work
# Bare Debian root file systems, and commands in them. Sourced after lib.sh and debian.sh.
#
# CARGO_PROFILE_*, CARGO_REGISTRIES_*, proxies, apt's mirror and the added certificates of this machine are
# passed on. All mounts are inside of the namespaces of `alone`.

bootstrap_limit_s=${FERROCE_BOOTSTRAP_LIMIT_S:-300} # more for a busy machine
install_limit_s=600

# Prints the name of a known release of Debian.
debian_name() { # RELEASE
    case $1 in
    12 | bookworm) echo bookworm ;;
    13 | trixie) echo trixie ;;
    *) fail "$1: not a release that is known here: 12 or 13" ;;
    esac
}

check_roots_are_possible() {
    [ "$(id -u)" = 0 ] || cannot "a bare root needs root (chroot, mounts)"
    "$project/.ci/install-packages" debootstrap util-linux || cannot "debootstrap cannot be had"
    alone 10 true || cannot "no namespaces of mounts and processes (unshare)"
}

# Runs a program in separate mount and process namespaces, which end with it. unshare ignores TERM; killing it
# ends the namespaces.
alone() { # LIMIT_S COMMAND...
    local limit_s=$1
    shift
    timeout --foreground --kill-after=2 "$limit_s" unshare --mount --pid --fork --kill-child -- "$@"
}

handed_on() {
    env | grep -E '^((https?|no)_proxy|(HTTPS?|NO)_PROXY|CARGO_(REGISTR|SOURCE|NET|HTTP|PROFILE)[A-Z_]*)=' || true
}

# In the root as USER, with memory to share that is the root's alone.
in_root() { # LIMIT_S USER COMMAND
    local limit_s=$1 user=$2 variables home
    mapfile -t variables < <(handed_on)
    home=$([ "$user" = root ] && echo /root || echo "/home/$user")
    printf '%s$ %s\n' "$user" "$3"
    # shellcheck disable=SC2016 # expanded by the shell inside
    alone "$limit_s" sh -c '
        mount -t proc proc "$1/proc" && mount --rbind /dev "$1/dev" && mount --rbind /sys "$1/sys" &&
        mount -t tmpfs -o mode=1777 tmpfs "$1/dev/shm" && shift && exec "$@"' \
        sh "$root" chroot --userspec="$user" "$root" env -i "${variables[@]}" HOME="$home" USER="$user" LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
        PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
        sh -c "cd && $3" </dev/null 2>&1
}

# shellcheck disable=SC2016 # a format of apt
security_mirror() { # MIRROR
    local found
    found=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Component: main' 2>/dev/null |
        grep -m 1 security || true)
    echo "${found:-${1%/}-security}"
}

# Passes on how this machine reaches mirrors and registries.
hand_on_network() {
    local config=${CARGO_HOME:-$HOME/.cargo}/config.toml
    cp /etc/resolv.conf "$root/etc/resolv.conf"
    apt-config dump | grep -E '^Acquire::(https?::)?[^ ]*Proxy' >"$root/etc/apt/apt.conf.d/90proxy" || true
    install -d "$root/usr/local/share/ca-certificates" "$root/.cargo"
    find /usr/local/share/ca-certificates -name '*.crt' -exec cp {} "$root/usr/local/share/ca-certificates/" \;
    [ ! -e "$config" ] || cp "$config" "$root/.cargo/"
}

# A minimal Debian of $suite in $root, with package lists.
bootstrap_root() {
    local mirror
    mirror=$(debian_mirror)
    [ -n "$mirror" ] || cannot "apt knows no Debian mirror; FERROCE_DEBIAN_MIRROR=URL names one"
    alone "$bootstrap_limit_s" debootstrap --variant=minbase --keyring="$(debian_keyring)" "$suite" "$root" \
        "$mirror" >"$work/log" 2>&1 ||
        { tail -n 5 "$work/log" >&2; cannot "debootstrap of $suite from $mirror failed (see above)"; }
    hand_on_network
    {
        printf 'deb %s %s main\n' "$mirror" "$suite" "$mirror" "$suite-updates"
        printf 'deb %s %s-security main\n' "$(security_mirror "$mirror")" "$suite"
    } >"$root/etc/apt/sources.list"
    in_root "$install_limit_s" root 'apt-get -q update' >"$work/log" ||
        { tail -n 5 "$work/log" >&2; cannot "apt-get update in the bare root failed (see above)"; }
}
