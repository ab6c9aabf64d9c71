#!/bin/sh
# Builds the service and its peer, and runs every bench beside it.
#
# usage: tests/bench/run.sh [OPTION…]    options of `countersign bench`, as --rounds 9, --seconds 10 or --json
#   CARGO_TARGET_DIR  where cargo builds (default: target)
#   PEER              a tesserapeer that is built already
#   WITNESS_PEER      a runwitness that is built already, with its litewitness beside it
#   ONLY              of http, included, paced, ndjson, verify, witness, witnessed those to run, in one word with blanks between
set -eu
cd "$(dirname "$0")/../.."
target=${CARGO_TARGET_DIR:-target}
cargo build --release --locked --package countersign-api
if [ -z "${PEER:-}" ]; then
    PEER=$target/tesserapeer
    case $PEER in /*) ;; *) PEER=$PWD/$PEER ;; esac
    (cd tests/peers && go build -o "$PEER" ./cmd/tesserapeer)
fi
if [ -z "${WITNESS_PEER:-}" ]; then
    WITNESS_PEER=$target/witnesspeer/runwitness
    case $WITNESS_PEER in /*) ;; *) WITNESS_PEER=$PWD/$WITNESS_PEER ;; esac
    mkdir -p "${WITNESS_PEER%/*}"
    (cd tests/peers/witnesses && go build -o "${WITNESS_PEER%/*}/" filippo.io/torchwood/cmd/litewitness ./cmd/runwitness)
fi
countersign=$target/release/countersign
for bench in ${ONLY:-http included paced ndjson verify witness witnessed}; do
    case $bench in
    http | ndjson | included) "$countersign" bench "$bench" --peer-binary "$PEER" "$@" ;;
    paced) "$countersign" bench included --rate 500 --peer-binary "$PEER" "$@" ;;
    verify) "$countersign" bench verify "$@" ;;
    witness)
        for logs in 1 100 10000; do
            for connections in 32 1; do
                # A log grows by one head at a time: more connections than logs have nothing to do.
                [ $logs = 1 ] && [ $connections != 1 ] && continue
                "$countersign" bench witness --logs $logs --connections $connections --peer-binary "$WITNESS_PEER" "$@"
                echo
            done
        done
        ;;
    witnessed) "$countersign" bench witnessed --rate 500 "$@" ;;
    *) echo "no bench is called $bench" >&2 && exit 2 ;;
    esac
    echo
done
