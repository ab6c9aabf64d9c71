#!/bin/sh
# How build.sh behaves when things go wrong, with a compiler that only pretends: seconds, not minutes. Needs g++ and cargo.
# usage: test.sh [SHELL]    the shell to run build.sh with (default: sh)
set -u
shell=${1:-sh}
here=$(cd "$(dirname "$0")" && pwd)
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
unset ROCKSDB_CACHE ROCKSDB_CPU ROCKSDB_WATCH XDG_CACHE_HOME OUT_DIR NUM_JOBS CXX AR
# A tree of its own, so that nothing is written into this one.
mkdir -p "$tmp/tree/log/rocksdb" "$tmp/bin"
cp -r "$here/build.sh" "$here/fetch" "$tmp/tree/log/rocksdb/"
build=$tmp/tree/log/rocksdb/build.sh

# The pretender: answers questions as g++ does, compiles nothing. $FAKE chooses its mood; each unit it "compiles" is one line in $tmp/units.
export tmp FAKE=quick MACHINE=
cat >"$tmp/bin/fake++" <<'FAKE'
#!/bin/sh
for a; do
    case $a in
        -dumpmachine) [ -z "$MACHINE" ] || { echo "$MACHINE"; exit 0; }; exec g++ "$a" ;;
        --version | -dumpversion | -print-prog-name=*) exec g++ "$a" ;;
        -fsyntax-only) [ "$FAKE" != old ] || { echo 'error: too old'; exit 1; }; exit 0 ;;
    esac
done
echo "$*" >>"$tmp/units"
case $FAKE in
    slow) sleep 1 ;;
    hangs) case $* in *part.03*) sleep 1000 ;; esac ;;
    full) echo 'fatal error: error writing to x.s: No space left on device' >&2; exit 1 ;;
    killed) echo 'g++: fatal error: Killed signal terminated program cc1plus' >&2; exit 1 ;;
    wrong) echo 'x.cc:1:1: error: nonsense' >&2; exit 1 ;;
esac
while [ "$1" != -o ]; do shift; done
echo 'int x;' | g++ -x c++ -c - -o "$2"
FAKE
chmod +x "$tmp/bin/fake++"
PATH=$tmp/bin:$PATH
export CXX=fake++ HOME="$tmp/home"
mkdir "$HOME"
CARGO_HOME=${CARGO_HOME:-$(dirname "$(dirname "$(command -v cargo)")")}
export CARGO_HOME RUSTUP_HOME="${RUSTUP_HOME:-$(dirname "$CARGO_HOME")/.rustup}"

passed=0 failed=0
clean() {
    rm -rf "$tmp/home/.cache" "$tmp/tree/target" "$tmp/cache" "$tmp/out" "$tmp/units"
    FAKE=quick MACHINE=
}
run() { "$shell" "$build" "$@" >"$tmp/stdout" 2>"$tmp/stderr"; }
lines() { wc -l <"$1" | tr -d ' '; }
# check WHAT TEST…: the test's command holds
check() {
    what=$1
    shift
    if "$@"; then passed=$((passed + 1)); else
        failed=$((failed + 1))
        echo "FAILED: $what: $*"
        sed 's/^/    /' "$tmp/stderr"
    fi
}
says() { grep -q -- "$1" "${2:-$tmp/stderr}"; }
soon() { # soon SECONDS COMMAND…
    n=$1
    shift
    while ! "$@" 2>/dev/null; do
        [ "$n" -gt 0 ] || return 1
        n=$((n - 1))
        sleep 1
    done
}
units() { [ "$(lines "$tmp/units")" -ge "$1" ]; }
# The pretenders of this test that run, as folders of /proc.
compilers() { grep -la "$tmp/bin/fake[+][+]" /proc/[0-9]*/cmdline 2>/dev/null | xargs -r -n1 dirname; }
none() { [ -z "$(compilers)" ]; }
# The one that hangs: what is killed before it runs leaves nothing behind that could hold the lock.
some() { [ -n "$(compilers)" ]; }
unlocked() { flock -n "$1" true; }

clean && run
check 'a build ends well' [ $? -eq 0 ]
folder=$(cat "$tmp/stdout")
check 'it prints one folder' [ -s "$folder/librocksdb.a" ]
check 'in the home' [ "${folder#"$HOME/.cache/countersign/rocksdb-11.8.1-"}" != "$folder" ]
check 'of 8 units and lz4' [ "$(lines "$tmp/units")" -eq 10 ]
check 'nothing is left over' [ ! -e "$folder.work" ]
run
check 'the second time it is there' [ "$(lines "$tmp/stderr")-$(lines "$tmp/units")" = 0-10 ]
echo '# a comment' >>"$build" && run
check 'a comment costs nothing' [ "$(lines "$tmp/units")" -eq 10 ]

clean
FAKE=hangs ROCKSDB_CACHE=$HOME/.cache/countersign
export ROCKSDB_CACHE
"$shell" "$build" >"$tmp/one" 2>"$tmp/one.err" &
one=$!
check 'units begin' soon 60 units 5
"$shell" "$build" >"$tmp/two" 2>"$tmp/two.err" &
two=$!
check 'the second says that it waits' soon 60 says 'waiting for another build' "$tmp/two.err"
sleep 2
kill -TERM $one
wait $one
check 'SIGTERM is obeyed' [ $? -eq 143 ]
check 'the second takes over' soon 60 says 'was finished before' "$tmp/two.err"
check 'and compiles' soon 60 some
FAKE=quick
kill -KILL $two
wait $two 2>/dev/null
check 'after SIGKILL the lock lasts while a compiler writes' some
for p in $(compilers); do kill -KILL "-$(awk '{ print $5 }' "$p/stat")" 2>/dev/null; done
run
check 'a later build goes on from there' [ $? -eq 0 ]
check 'and does not repeat what was finished' says 'was finished before'
unset ROCKSDB_CACHE

# cargo (a shell) → build script (a shell) → build.sh; only cargo is told to end.
clean
FAKE=hangs
sh -c 'sh -c "ROCKSDB_WATCH=1 \"$0\" \"$1\"; true" "$0" "$1"; true' "$shell" "$build" >"$tmp/stdout" 2>"$tmp/stderr" &
like_cargo=$!
check 'units begin under cargo' soon 60 units 5
kill -TERM $like_cargo
check 'without cargo the compilers end' soon 60 none
check 'and the lock is free' soon 60 unlocked "$(ls "$HOME"/.cache/countersign/*.lock)"
check 'and it says why' says 'cargo is gone'

clean && CXX=no-such-compiler run
check 'no compiler: fails' [ $? -eq 1 ]
check 'no compiler: one line' [ "$(lines "$tmp/stderr")" -eq 1 ]
check 'no compiler: says what to install' says 'apt-get install g++'
clean && FAKE=old && run
check 'old compiler: fails' [ $? -eq 1 ]
check 'old compiler: one line' [ "$(lines "$tmp/stderr")" -eq 1 ]
check 'old compiler: says what it takes' says 'C++20 (GCC 11'
clean && CARGO=false run
check 'no source: says what to run' says 'cargo fetch --locked'

clean && FAKE=full && run
check 'disk full: fails' [ $? -eq 1 ]
check 'disk full: says so' says 'the disk is full. Free: '
clean && FAKE=killed && run
check 'no memory: says so' says 'ran out of memory'
clean && FAKE=wrong && run
check 'compile error: shown' says 'error: nonsense'
check 'compile error: no other guess' says 'see the message above'
clean
cat >"$tmp/bin/awk" <<'FAKE'
#!/bin/sh
case $1 in *MemAvailable*) echo 1500 ;; *) exec /usr/bin/awk "$@" ;; esac
FAKE
chmod +x "$tmp/bin/awk"
run
check 'small machine: smaller units, one at a time' says 'in 32 units with fake++, 1 at a time'
check 'small machine: all of them' [ "$(lines "$tmp/units")" -eq 34 ]
rm "$tmp/bin/awk"

clean && (unset HOME && run)
check 'no home: the tree keeps it' says "tree/target/rocksdb"
check 'no home: says so' says 'HOME is not set'
clean && : >"$tmp/tree/target" && (unset HOME && OUT_DIR=$tmp/out run)
check 'no tree either: OUT_DIR' says "^$tmp/out/rocksdb-" "$tmp/stdout"
rm "$tmp/tree/target"
clean && ROCKSDB_CACHE=/proc/no run
check 'unwritable cache: goes elsewhere' says "^$tmp/tree/target/rocksdb/rocksdb-" "$tmp/stdout"
clean && ROCKSDB_CACHE=cache run
check 'relative cache: refused' says 'not an absolute path'
clean && ROCKSDB_CACHE="$tmp/a cache" run
check 'a space in the path' says "^$tmp/a cache/rocksdb-" "$tmp/stdout"

clean && MACHINE=aarch64-linux-gnu && run
check 'aarch64: its flags' says '-march=armv8-a+crc+crypto' "$tmp/units"
clean && run aarch64-unknown-linux-gnu
check 'cross, nothing installed: says what' says 'apt-get install g++-aarch64-linux-gnu'
clean && CXX_aarch64_unknown_linux_gnu=fake++ run aarch64-unknown-linux-gnu
check 'cross, wrong compiler: refused' says 'compiles for x86_64-linux-gnu, not for aarch64'
clean && MACHINE=aarch64-linux-gnu CXX_aarch64_unknown_linux_gnu=fake++ run aarch64-unknown-linux-gnu
check 'cross: its flags' says '-march=armv8-a+crc+crypto' "$tmp/units"
clean && ROCKSDB_CPU='' run
check 'ROCKSDB_CPU: may be empty' sh -c '! grep -q -- -msse4 "$tmp/units"'

echo "build.sh: $passed passed, $failed failed"
[ "$failed" -eq 0 ]
