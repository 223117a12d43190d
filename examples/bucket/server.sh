#!/bin/sh
# The server: sh server.sh STEPS BUCKET ROUNDS SITE... To resume, repeat the command.
set -eu
steps=$1 bucket=$2 rounds=$3 here=$(dirname "$0") && shift 3
get() { if sh "$here/get.sh" "$bucket/$2/$1.tar" "new/$1/$2" 2>copy.log; then came=$((came + 1)); fi; }
for round in $(seq 0 "$rounds"); do
    end=$(($(date +%s) + ${WAIT:-86400}))
    until test "$round" = 0 || test -e "got/$round"; do
        now=$(date +%s) came=0 && mkdir -p "new/$round" got
        for site; do get "$round" "$site"; done
        if test $came -lt "${EXPECT:-$#}" && test "$now" -lt "$end"; then sleep "${PAUSE:-5}" && continue; fi
        test $came -ge "${AT_LEAST:-2}" || { echo "round $round: $came uploads" >&2 && exit 75; }
        mv "new/$round" "got/$round" # closes the round: later uploads are ignored
    done
    # 75: too few valid uploads, so the round opens again
    sh "$steps" server "$round" || { code=$? && if test $code = 75; then mv "got/$round" "new/$round"; fi && exit $code; }
    sh "$here/put.sh" "put/$round" "$bucket/server/$round.tar"
done
