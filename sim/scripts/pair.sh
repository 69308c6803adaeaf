# Two processes of an unmodified program on Ferroce, the server and its client. Sourced by scripts, which set
# $ferroce: the command
# $options: words for `ferroce run`, if any
# $work is a folder that goes with the script.

limit_s=120 # of a process
port=$((20000 + $(od -An -N2 -tu2 /dev/urandom) % 20000))
server=''
work=$(mktemp -d)
log=$work/server.log
trap 'kill "$server" 2>/dev/null || true; rm -rf "$work"' EXIT

run() { # PROGRAM ARGUMENT...
    # shellcheck disable=SC2086,SC2154 # of the script; no word, or several
    timeout "$limit_s" "$ferroce" run $options -- "$@"
}

# Starts a program that listens on $port, and returns once it does, or has ended.
start_server() { # PROGRAM ARGUMENT...
    run "$@" -p "$port" >"$log" 2>&1 &
    server=$!
    look=$(printf ':%04X .* 0A ' "$port")
    tries=0
    until grep -q "$look" /proc/net/tcp /proc/net/tcp6 || [ "$tries" -ge 100 ] || ! kill -0 "$server" 2>/dev/null; do
        tries=$((tries + 1))
        sleep 0.1
    done
}

# Runs the client of the server; the next server has the next port.
run_client() { # PROGRAM ARGUMENT...
    if ! run "$@" -p "$port" 127.0.0.1; then
        echo "ferroce: the client failed: $*; the server said:" >&2
        cat "$log" >&2
        exit 1
    fi
    wait "$server"
    port=$((port + 1))
}
