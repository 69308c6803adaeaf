# shellcheck shell=bash disable=SC2154,SC2016 # variables of the files before; formats of apt
# Unpacks Debian packages of trixie and trixie-backports into a separate folder, without installing
# them and without root. Sourced after lib.sh.
#
# apt gets a separate state with an empty list of installed packages, so that it resolves and checks
# (including signatures) the packages of a tree independently of this machine's release.

debian_suite=trixie
debian_update_limit_s=120
debian_download_limit_s=600
debian_unpack_limit_s=120

# The mirror that this machine's apt uses; FERROCE_DEBIAN_MIRROR if that one has no trixie-backports.
# Prints nothing if apt has no mirror.
debian_mirror() {
    if [ -n "${FERROCE_DEBIAN_MIRROR:-}" ]; then
        echo "$FERROCE_DEBIAN_MIRROR"
        return
    fi
    apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Component: main' 2>/dev/null |
        grep -v -m 1 security || true
}

debian_keyring() {
    local keyring
    for keyring in /usr/share/keyrings/debian-archive-keyring.{gpg,pgp}; do
        [ ! -e "$keyring" ] || break
    done
    echo "$keyring"
}

# apt-get or apt-cache with the state of $cache/apt.
debian_apt() { # LIMIT_S apt-get|apt-cache ARGUMENT...
    local limit_s=$1 program=$2 state=$cache/apt
    shift 2
    timeout "$limit_s" "$program" -q -o Dir::State="$state" -o Dir::State::status="$state/status" \
        -o Dir::Cache="$state/cache" -o Dir::Etc::SourceList="$state/sources.list" \
        -o Dir::Etc::SourceParts=/dev/null -o Dir::Etc::Preferences=/dev/null \
        -o Dir::Etc::PreferencesParts=/dev/null -o APT::Architecture=amd64 -o APT::Architectures=amd64 \
        -o APT::Sandbox::User= -o APT::Install-Recommends=false -o Acquire::Languages=none \
        -o Acquire::Retries=2 -o Acquire::http::Timeout=20 "$@"
}

debian_errors() { # LOG
    grep -E '^(E|Err|W):?' "$1" | head -n 4
}

# Reads the package lists, once in the life of a script.
debian_update() {
    local state=$cache/apt mirror keyring
    [ -z "${debian_updated:-}" ] || return 0
    mirror=$(debian_mirror)
    [ -n "$mirror" ] || cannot "apt of this machine has no Debian mirror: FERROCE_DEBIAN_MIRROR=URL names one"
    keyring=$(debian_keyring)
    mkdir -p "$state/lists/partial" "$state/cache/archives/partial"
    : >"$state/status"
    printf 'deb [signed-by=%s] %s %s main\n' "$keyring" "$mirror" "$debian_suite" \
        "$keyring" "$mirror" "$debian_suite-backports" >"$state/sources.list"
    if ! debian_apt "$debian_update_limit_s" apt-get update --error-on=any >"$state/update.log" 2>&1; then
        debian_errors "$state/update.log" >&2
        cannot "cannot read the package lists of $mirror ($debian_suite and $debian_suite-backports):" \
            "no network, another mirror needed (FERROCE_DEBIAN_MIRROR=URL), or debian-archive-keyring too old"
    fi
    debian_updated=yes
}

# Unpacks the packages of the list and their dependencies into the folder TREE.
debian_tree() { # TREE PACKAGE...
    local tree=$1 archives=$cache/apt/cache/archives package
    shift
    debian_update
    rm -rf "$tree" "$tree.part" "$archives"
    mkdir -p "$tree.part" "$archives/partial"
    debian_apt "$debian_download_limit_s" apt-get -y --download-only install "$@" >"$tree.log" 2>&1 || {
        debian_errors "$tree.log" >&2
        cannot "cannot fetch $*"
    }
    for package in "$archives"/*.deb; do
        timeout "$debian_unpack_limit_s" dpkg-deb -x "$package" "$tree.part"
    done
    rm -rf "$archives" "$tree.part"/usr/share/{doc,man,locale,info,lintian}
    mv "$tree.part" "$tree"
}

# One package, without its dependencies, into the folder of today.
debian_download() { # PACKAGE
    debian_update
    debian_apt "$debian_download_limit_s" apt-get download "$1" >"$cache/apt/download.log" 2>&1 || {
        debian_errors "$cache/apt/download.log" >&2
        cannot "cannot fetch $1"
    }
}
