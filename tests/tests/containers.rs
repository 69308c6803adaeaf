//! Tests the chapter on CI and containers in namespaces that are as bare as containers.
//!
//! If the machine does not permit namespaces to this user, the tests print that and do nothing.

use std::process::Command;
use std::time::Duration;

use ferroce_tests::{Process, Scratch, ferroce, library};

const TIMEOUT: Duration = Duration::from_secs(120);

/// Runs a bash script in separate namespaces (processes, mounts, IPC, host name, network), as a
/// user that is root only in them. The script has to succeed. Prints a note if this machine does
/// not permit namespaces.
fn contained(scratch: &Scratch, script: &str) {
    let namespaces = ["-rnmpfiu", "--mount-proc"];
    let mut probe = Command::new("unshare");
    probe.args(namespaces).arg("true");
    if !scratch.finish(probe).succeeded() {
        println!("NOT TESTED: this machine admits no namespaces to this user");
        return;
    }
    let mut command = Command::new("unshare");
    command
        .args(namespaces)
        .args([
            "bash",
            "-c",
            &format!("set -euo pipefail\n{HELPERS}{script}"),
        ])
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("SCRATCH", scratch.path(""))
        .env("LIBRARY", library().canonicalize().expect("it is built"))
        .env("FERROCE", ferroce().canonicalize().expect("it is built"));
    Process::start(command, scratch, "contained", TIMEOUT)
        .wait()
        .expect_success();
}

/// `pair ADDRESS SERVER.. and CLIENT..`: runs `ib_write_bw` twice, with the words SERVER and CLIENT
/// in front; starts the client as soon as the server listens.
const HELPERS: &str = r#"
ip link set lo up
pair() { # ADDRESS SERVER... and CLIENT...
    local address=$1 server=()
    shift
    while [ "$1" != and ]; do server+=("$1"); shift; done
    shift
    "${server[@]}" ib_write_bw -n 200 >"$SCRATCH/server" 2>&1 &
    for attempt in $(seq 300); do
        "$@" ib_write_bw -n 200 "$address" >"$SCRATCH/client" 2>&1 && break
        grep -q "Couldn't connect" "$SCRATCH/client" || { cat "$SCRATCH/client"; return 1; }
        sleep 0.1
    done
    wait "$!" || { cat "$SCRATCH/server"; return 1; }
    grep -E '^ 65536 +200 ' "$SCRATCH/client"
}
"#;

/// Goal: programs run in a container like Docker's: no variable set, `/dev/shm` of 64 MB, an empty
/// `/proc/sys`, a read-only home and `/tmp`. Method: two programs of perftest.
#[test]
fn a_bare_container_suffices() {
    let scratch = Scratch::new();
    contained(
        &scratch,
        r#"
mount -t tmpfs -o size=64m tmpfs /dev/shm
mount -t tmpfs -o ro tmpfs /proc/sys
mkdir "$SCRATCH/temporary"
mount -t tmpfs -o ro tmpfs "$SCRATCH/temporary"
export HOME=/nonexistent TMPDIR=$SCRATCH/temporary
"$FERROCE" run -- ibv_devinfo | grep -q PORT_ACTIVE
pair 127.0.0.1 "$FERROCE" run -- and "$FERROCE" run --
[ -f "/dev/shm/ferroce-$(id -u)/registry" ]
used_kib=$(df -k --output=used /dev/shm | tail -n 1)
[ "$used_kib" -lt 32768 ]
"#,
    );
}

/// Goal: two containers communicate if they share only a folder, and a network for the programs'
/// own connection. Method: each side has its own processes, IPC, mounts and network.
#[test]
fn two_containers_share_a_folder() {
    let scratch = Scratch::new();
    contained(
        &scratch,
        &format!(
            "{TWO_NETWORKS}{}",
            r#"
mkdir "$SCRATCH/shared"
mount -t tmpfs tmpfs "$SCRATCH/shared"
export FERROCE_DIR=$SCRATCH/shared/fabric
box() { # NETWORK COMMAND...
    local network=$1
    shift
    ip netns exec "$network" unshare -mpfiu --mount-proc "$@"
}
pair 10.9.0.1 box a "$FERROCE" run -- and box b "$FERROCE" run --
"#
        ),
    );
}

/// Goal: two containers without a common folder communicate over UDP, each with its own address.
#[test]
fn two_containers_talk_over_udp() {
    let scratch = Scratch::new();
    contained(
        &scratch,
        &format!(
            "{TWO_NETWORKS}{}",
            r#"
side() { # NETWORK OWN OTHER COMMAND...
    local network=$1 own=$2 other=$3
    shift 3
    FERROCE_DIR=$SCRATCH/fabric-$network ip netns exec "$network" unshare -mpfiu --mount-proc \
        "$FERROCE" run --host "$network" --address "$own" --port "udp:$own:4792,$other:4792" -- "$@"
}
pair 10.9.0.1 side a 10.9.0.1 10.9.0.2 and side b 10.9.0.2 10.9.0.1
"#
        ),
    );
}

/// Two networks, `a` and `b`, with a cable between them.
const TWO_NETWORKS: &str = "
mount -t tmpfs tmpfs /run
mkdir /run/netns
ip netns add a
ip netns add b
ip link add va type veth peer name vb
ip link set va netns a
ip link set vb netns b
ip -n a addr add 10.9.0.1/24 dev va
ip -n b addr add 10.9.0.2/24 dev vb
for name in a b; do
    ip -n $name link set lo up
    ip -n $name link set v$name up
done
";

/// Goal: programs find the library without `ferroce run`, by `LD_LIBRARY_PATH` and for the whole
/// system. Method: a namespace has a loader's cache that was made from a list with our folder
/// first.
#[test]
fn the_loader_finds_the_library() {
    let scratch = Scratch::new();
    contained(
        &scratch,
        r#"
export FERROCE_DIR=$SCRATCH/fabric
folder=$(dirname "$LIBRARY")
LD_LIBRARY_PATH=$folder ibv_devinfo | grep ferroce0
printf '%s\ninclude /etc/ld.so.conf.d/*.conf\n' "$folder" >"$SCRATCH/ld.so.conf"
PATH=$PATH:/sbin:/usr/sbin ldconfig -X -f "$SCRATCH/ld.so.conf" -C "$SCRATCH/ld.so.cache"
! ibv_devinfo
mount --bind "$SCRATCH/ld.so.cache" /etc/ld.so.cache
ibv_devinfo | grep ferroce0
pair 127.0.0.1 env and env
"#,
    );
}
