#!/bin/sh
# A site: sh site.sh STEPS NAME IMAGES BUCKET ROUNDS. To resume, repeat the command.
set -eu
steps=$1 name=$2 images=$3 bucket=$4 rounds=$5 here=$(dirname "$0")
get() { sh "$here/get.sh" "$bucket/server/$1.tar" "got/$1" 2>copy.log; }
for round in $(seq "$rounds"); do
    # A site skips a round after its upload, or after the server has closed the round.
    if test -e "put/$round.sent" || get "$round"; then continue; fi
    until get $((round - 1)); do sleep "${PAUSE:-5}"; done
    sh "$steps" site "$round" "$name" "$images"
    sh "$here/put.sh" "put/$round" "$bucket/$name/$round.tar"
done
