#!/bin/sh
# Builds the service and its peer, and runs every bench beside it.
#
# usage: tests/bench/run.sh [OPTION…]    options of `countersign bench`, as --rounds 9, --seconds 10 or --json
#   CARGO_TARGET_DIR  where cargo builds (default: target)
#   PEER              a tesserapeer that is built already
#   ONLY              of http, included, paced, ndjson, verify those to run, in one word with blanks between
set -eu
cd "$(dirname "$0")/../.."
target=${CARGO_TARGET_DIR:-target}
cargo build --release --locked --package countersign-api
if [ -z "${PEER:-}" ]; then
    PEER=$target/tesserapeer
    case $PEER in /*) ;; *) PEER=$PWD/$PEER ;; esac
    (cd tests/peers && go build -o "$PEER" ./cmd/tesserapeer)
fi
countersign=$target/release/countersign
for bench in ${ONLY:-http included paced ndjson verify}; do
    case $bench in
    http | ndjson | included) "$countersign" bench "$bench" --peer-binary "$PEER" "$@" ;;
    paced) "$countersign" bench included --rate 500 --peer-binary "$PEER" "$@" ;;
    verify) "$countersign" bench verify "$@" ;;
    *) echo "no bench is called $bench" >&2 && exit 2 ;;
    esac
    echo
done
