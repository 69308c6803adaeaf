#!/bin/sh
# Link the provider's static library into the drop-in libibverbs.so.1.
#
#   provider/link.sh STATICLIB OUTDIR
#
# writes OUTDIR/libibverbs.so.1 and the symlink OUTDIR/libibverbs.so. cargo cannot do this: rustc
# passes its own version script for every cdylib, and a second one is dropped silently; and without
# version nodes the loader rejects the library for programs that were linked against rdma-core's. CC
# is honoured, LIBS, which foreign code in STATICLIB needs, and LDFLAGS, which are passed last.
set -eu

if [ $# -ne 2 ]; then
    echo "usage: $0 STATICLIB OUTDIR" >&2
    exit 2
fi
staticlib=$1
outdir=$2
symbols=$(dirname "$0")/symbols.txt
mkdir -p "$outdir"
work=$(mktemp -d "$outdir/.link.XXXXXX")
trap 'rm -rf "$work"' EXIT INT TERM

# glibc of ports younger than x86-64 starts at a later node, which older calls have there.
case $(uname -m) in
x86_64) oldest=2.2.5 ;;
aarch64 | ppc64le) oldest=2.17 ;;
*) oldest= ;;
esac
[ -n "$oldest" ] || { echo "$0: no symbol versions known for $(uname -m)" >&2; exit 1; }
grep -v '^#' "$symbols" | awk -v oldest="$oldest" '
    function minor(version, part) { split(version, part, "."); return part[2] + 0 }
    $1 ~ /^GLIBC_/ && minor(substr($1, 7)) < minor(oldest) { $1 = "GLIBC_" oldest }
    NF == 3' >"$work/symbols"

# The version script. Each public node inherits from the one before it, as in rdma-core. Names with
# stubs are not in it: they get their node, or nodes, from .symver below.
awk '
    function close_node() { if (node != "") print "}" parent ";" }
    $1 != node {
        close_node()
        parent = ($1 ~ /^IBVERBS_1/ && node ~ /^IBVERBS_1/) ? " " node : ""
        print $1 " {"
        node = $1
        empty = 1
    }
    $2 == "own" && !seen[$1, $3]++ {
        if (empty) print "  global:"
        empty = 0
        print "    " $3 ";"
    }
    # Symbols in no node are local. The pattern is in a node without symbols, because it would hide
    # the stubs of its node.
    END { close_node(); print "FERROCE_LOCAL { local: *; };" }' "$work/symbols" >"$work/libibverbs.map"

# The stubs. Of a name in several nodes, the newest is the default (@@). A forward passes six
# integer registers on, which is enough for the calls of this kind.
awk '
    BEGIN {
        print "#include <errno.h>"
        print "long ferroce_stub_status(void) { errno = ENOSYS; return ENOSYS; }"
        print "long ferroce_stub_null(void) { errno = ENOSYS; return 0; }"
        print "long ferroce_stub_minus_one(void) { errno = ENOSYS; return -1; }"
    }
    $2 != "own" { count++; node[count] = $1; kind[count] = $2; name[count] = $3 }
    { newest[$3] = $1 }
    END {
        for (i = 1; i <= count; i++) {
            label = "ferroce_" name[i] "__" node[i]
            gsub(/\./, "_", label)
            if (kind[i] == "forward") {
                target = "ferroce_" name[i]
                print "extern long " target "(long, long, long, long, long, long);"
                print "long " label "(long a, long b, long c, long d, long e, long f)"
                print "{ return " target "(a, b, c, d, e, f); }"
            } else {
                print "long " label "(void) __attribute__((alias(\"ferroce_stub_" kind[i] "\")));"
            }
            at = node[i] == newest[name[i]] ? "@@" : "@"
            print "__asm__(\".symver " label ", " name[i] at node[i] "\");"
        }
    }' "$work/symbols" >"$work/stubs.c"

${CC:-cc} -c -O2 -fPIC -o "$work/stubs.o" "$work/stubs.c"

# Every own symbol is named with -u, so that only the archive members that define them are linked.
# -Bsymbolic-functions is omitted on purpose: the library's calls of its own names must resolve like
# those of the program. -z nodelete: the driver's threads outlive a
# dlclose.
awk '$2 == "own" { print "-Wl,-u," $3 }' "$work/symbols" | sort -u >"$work/undefined"
# shellcheck disable=SC2086 # LDFLAGS and LIBS are several words
${CC:-cc} -shared -o "$work/libibverbs.so.1" \
    -Wl,-soname,libibverbs.so.1 -Wl,--version-script="$work/libibverbs.map" \
    "@$work/undefined" "$work/stubs.o" "$staticlib" \
    -Wl,--gc-sections -Wl,--as-needed -Wl,-z,defs -Wl,-z,nodelete -Wl,-z,relro \
    ${LIBS:-} -lgcc_s -lpthread -ldl -lm -lc ${LDFLAGS:-}

# A program may have the old file mapped: replace it, never write into it.
mv -f "$work/libibverbs.so.1" "$outdir/libibverbs.so.1"
ln -sf libibverbs.so.1 "$outdir/libibverbs.so"
