#!/bin/sh
# Builds the service and its peer, and runs every bench beside it.
#
# usage: tests/bench/run.sh [OPTION…]    options of `countersign bench`, as --rounds 9, --seconds 10 or --json
#   CARGO_TARGET_DIR  where cargo builds (default: target)
#   PEER              a tesserapeer that is built already
#   WITNESS_PEER      a runwitness that is built already, with its litewitness beside it
#   CONNECTIONS       those of http and included, in one word with blanks between (default: 1 16 64 256 512)
#   ONLY              of http, included, paced, ndjson, verify, witness, witnessed, coordinate, claim, state, audit, start,
#                     disk, memory, open-accounts, flood:
#                     those to run, in one word with blanks between; coordinate is beside PostgreSQL where that is installed
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
for bench in ${ONLY:-http included paced ndjson verify witness witnessed coordinate claim state audit start disk memory open-accounts flood}; do
    case $bench in
    http | included)
        for connections in ${CONNECTIONS:-1 16 64 256 512}; do
            "$countersign" bench "$bench" --connections "$connections" --peer-binary "$PEER" "$@"
            echo
        done
        ;;
    ndjson) "$countersign" bench "$bench" --peer-binary "$PEER" "$@" ;;
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
    coordinate)
        for work in leases checkins upserts upserts-mcp; do
            for agents in 1 64; do
                for items in 1 100000; do
                    # Who is there to begin a session asks nothing of the board.
                    [ $work = checkins ] && [ $items != 1 ] && continue
                    "$countersign" bench coordinate --work $work --agents $agents --items $items "$@"
                    echo
                done
            done
        done
        "$countersign" bench coordinate --work leases --agents 1 --wait witnessed --alone "$@"
        echo
        "$countersign" bench coordinate --work leases --agents 64 --wait witnessed --alone "$@"
        ;;
    claim | state | audit | start | disk | memory | open-accounts | flood) "$countersign" bench "$bench" "$@" ;;
    *) echo "no bench is called $bench" >&2 && exit 2 ;;
    esac
    echo
done
