# shellcheck shell=bash disable=SC2154 # variables of the files before
# The two trees of unpacked packages: QEMU for this machine, programs for the guest. Sourced after debian.sh.

# vfio-user-pci came with QEMU 10.1; Debian has that in the backports of trixie.
host_packages=(qemu-system-x86 qemu-system-common qemu-system-data seabios)
host_packages=("${host_packages[@]/%/\/$debian_suite-backports}")
guest_packages=(busybox-static dash kmod iproute2 pciutils perftest ibverbs-utils ibverbs-providers rdmacm-utils)

host_tree=$cache/host
guest_tree=$cache/guest

build_trees() {
    stamped host "${host_packages[*]}" || {
        debian_tree "$host_tree" "${host_packages[@]}"
        stamp host "${host_packages[*]}"
    }
    stamped guest "${guest_packages[*]}" || {
        debian_tree "$guest_tree" "${guest_packages[@]}"
        stamp guest "${guest_packages[*]}"
    }
}

# A program of a tree, run with that tree's loader and libraries.
run_from_tree() { # TREE PROGRAM-BELOW-usr ARGUMENT...
    local tree=$1 program=$2
    shift 2
    "$tree/usr/lib64/ld-linux-x86-64.so.2" --library-path "$tree/usr/lib/x86_64-linux-gnu" \
        "$tree/usr/$program" "$@"
}

# Succeeds if a program of this machine runs in the guest: its libraries must not be newer than Debian's.
runs_in_guest() { # FILE
    local found
    found=$("$guest_tree/usr/lib64/ld-linux-x86-64.so.2" \
        --library-path "$guest_tree/usr/lib/x86_64-linux-gnu" --list "$1" 2>&1) && ! grep 'not found' <<<"$found"
}

# The shared libraries that a program needs, found in the guest's tree; "not found" stays in the list.
guest_libraries() { # FILE...
    local file
    for file in "$@"; do
        "$guest_tree/usr/lib64/ld-linux-x86-64.so.2" \
            --library-path "$guest_tree/usr/lib/x86_64-linux-gnu" --list "$file" || true
    done | awk '$2 == "=>" { print $3 }' | sort -u
}
