# shellcheck shell=bash
# Code that all scripts of this folder share: paths, messages, exit statuses. Sourced.

project=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)
# Everything that is fetched or built for a virtual machine; `rm -rf` of it is always safe.
cache=${FERROCE_QEMU_CACHE:-$project/target/qemu}

say() {
    printf 'ferroce: %s\n' "$*"
}

fail() {
    printf 'ferroce: %s\n' "$*" >&2
    exit 1
}

# Ends with status 77: this machine cannot run the test; that is not a failure of the project.
cannot() {
    printf 'ferroce: CANNOT: %s\n' "$*" >&2
    exit 77
}

# Succeeds if WHAT was already built from these VALUES. Otherwise the caller builds it, and then stamps it.
stamped() { # WHAT VALUE...
    local what=$1
    shift
    [ -e "$cache/$what.stamp" ] && [ "$(cat "$cache/$what.stamp")" = "$*" ]
}

stamp() { # WHAT VALUE...
    local what=$1
    shift
    printf '%s\n' "$*" >"$cache/$what.stamp"
}

# Ends a process that this script started, by its id, and waits for it; harmless when it is gone.
end_process() { # PID
    local pid=$1 tries=0
    [ -n "$pid" ] || return 0
    kill "$pid" 2>/dev/null || true
    while kill -0 "$pid" 2>/dev/null && [ "$tries" -lt 30 ]; do
        tries=$((tries + 1))
        sleep 0.1
    done
    kill -KILL "$pid" 2>/dev/null || true
    wait "$pid" 2>/dev/null || true
}
