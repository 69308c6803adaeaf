# shellcheck shell=bash disable=SC2154 # variables of the files before
# The guest's root file system: busybox, dash, kmod, the RDMA programs, their libraries, the kernel's
# modules, in one uncompressed cpio archive. Sourced after trees.sh and kernel.sh.

guest_programs=(
    dash kmod ip rdma lspci setpci
    ibv_devices ibv_devinfo ibv_rc_pingpong ibv_uc_pingpong ibv_ud_pingpong ibv_srq_pingpong
    ib_write_bw ib_write_lat ib_read_bw ib_read_lat ib_send_bw ib_send_lat ib_atomic_bw ib_atomic_lat
    rping ucmatose udaddy cmtime
)
initramfs=$cache/base.cpio

pack() { # FOLDER ARCHIVE
    (cd "$1" && find . -print0 | cpio --null -o -H newc --quiet -R 0:0) >"$2"
}

# busybox's shell prefers its own applets to programs of the same name, so the shell is dash and
# each applet its own link, where the tree has no better program.
install_programs() { # ROOT
    local root=$1 program applet
    cp -L "$guest_tree/usr/bin/busybox" "$root/usr/bin/"
    for program in "${guest_programs[@]}"; do
        cp -L "$guest_tree/usr/bin/$program" "$root/usr/bin/"
    done
    ln -s dash "$root/usr/bin/sh"
    for program in modprobe insmod rmmod lsmod depmod; do
        ln -s kmod "$root/usr/bin/$program"
    done
    for applet in $("$root/usr/bin/busybox" --list); do
        [ -e "$root/usr/bin/$applet" ] || ln -s busybox "$root/usr/bin/$applet"
    done
}

install_libraries() { # ROOT
    local root=$1 libraries=$guest_tree/usr/lib/x86_64-linux-gnu to=$1/usr/lib/x86_64-linux-gnu file
    cp -L "$guest_tree/usr/lib64/ld-linux-x86-64.so.2" "$root/usr/lib64/"
    mkdir -p "$to/libibverbs" "$root/etc/libibverbs.d"
    cp "$libraries"/libibverbs/librxe-rdmav*.so "$to/libibverbs/"
    cp "$guest_tree/etc/libibverbs.d/rxe.driver" "$root/etc/libibverbs.d/"
    # pthread_exit loads libgcc_s itself; ours needs it and libm.
    cp -L "$libraries/libgcc_s.so.1" "$libraries/libm.so.6" "$to/"
    guest_libraries "$root"/usr/bin/* "$to"/libibverbs/*.so 2>/dev/null | while read -r file; do
        [ ! -f "$file" ] || cp -L "$file" "$to/"
    done
}

install_modules() { # ROOT
    local version
    version=$(ls "$kernel_tree/usr/lib/modules")
    cp -r "$kernel_tree/usr/lib/modules" "$1/usr/lib/"
    timeout 60 "$guest_tree/usr/lib64/ld-linux-x86-64.so.2" --argv0 depmod \
        --library-path "$guest_tree/usr/lib/x86_64-linux-gnu" "$guest_tree/usr/bin/kmod" -b "$1" "$version"
}

build_initramfs() {
    local root=$cache/root inputs
    inputs=$(cat "$project/tests/qemu/init" "$project/tests/scripts/qemu/initramfs.sh" "$cache/guest.stamp" \
        "$cache/kernel.stamp" | sha256sum)
    stamped initramfs "$inputs" && return
    rm -rf "$root"
    mkdir -p "$root"/{proc,sys,dev,tmp,run,root,etc,usr/bin,usr/lib/x86_64-linux-gnu,usr/lib64}
    ln -s usr/bin "$root/bin"
    ln -s usr/bin "$root/sbin"
    ln -s usr/lib "$root/lib"
    ln -s usr/lib64 "$root/lib64"
    install_programs "$root"
    install_libraries "$root"
    install_modules "$root"
    install -m 755 "$project/tests/qemu/init" "$root/init"
    pack "$root" "$initramfs"
    rm -rf "$root"
    stamp initramfs "$inputs"
}
