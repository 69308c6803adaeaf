# shellcheck shell=bash disable=SC2154 # variables of the files before
# The guest's kernel and its modules, from Debian's package of the ordinary kernel (the cloud kernel has
# no soft-RoCE). Sourced after debian.sh.

# Of the four thousand modules: VFIO, the IOMMU of virtio, soft-RoCE and the NIC below it.
kernel_module_folders=(
    drivers/vfio drivers/iommu drivers/virtio virt
    drivers/infiniband/core drivers/infiniband/sw/rxe
    drivers/net/virtio_net drivers/net/net_failover drivers/net/dummy net/core/failover
    net/ipv4/udp_tunnel net/ipv6/ip6_udp_tunnel net/sched/sch_netem
    fs/configfs crypto/crc32 arch/x86/crypto/crc32 lib/libcrc32c
)
kernel_tree=$cache/kernel
kernel_image=$cache/vmlinux

# The kernel as an ELF file, which QEMU starts by PVH: unpacking bzImage costs seconds under TCG.
extract_elf() { # VMLINUZ ELF
    local offset offsets
    mapfile -t offsets < <(LC_ALL=C grep -aboP '\x28\xb5\x2f\xfd' "$1" | cut -d: -f1)
    for offset in "${offsets[@]}"; do
        tail -c "+$((offset + 1))" "$1" | zstd -dcq >"$2" 2>/dev/null || true
        [ "$(head -c 4 "$2" | tail -c 3)" != ELF ] || return 0
    done
    fail "no zstd-packed ELF file inside of $1; has Debian changed how it packs the kernel?"
}

build_kernel() {
    local package folder patterns=()
    stamped kernel "${kernel_module_folders[*]}" && return
    debian_update
    package=$(debian_apt 60 apt-cache show "linux-image-amd64/$debian_suite" |
        sed -n 's/^Depends: *\(linux-image-[^ ,]*\).*/\1/p' | head -n 1)
    rm -rf "$kernel_tree"
    mkdir -p "$kernel_tree"
    (cd "$kernel_tree" && debian_download "$package")
    for folder in "${kernel_module_folders[@]}"; do
        patterns+=("./usr/lib/modules/*/kernel/$folder*")
    done
    dpkg-deb --fsys-tarfile "$kernel_tree"/linux-image-*.deb |
        timeout 120 tar -x -C "$kernel_tree" --wildcards './boot/vmlinuz-*' './usr/lib/modules/*/modules.*' \
            "${patterns[@]}"
    extract_elf "$kernel_tree"/boot/vmlinuz-* "$kernel_image"
    rm -rf "$kernel_tree"/linux-image-*.deb "${kernel_tree:?}/boot"
    find "$kernel_tree" -name '*.ko.xz' -exec xz -d {} +
    stamp kernel "${kernel_module_folders[*]}"
}
