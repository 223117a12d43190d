#!/bin/sh
# The server: sh server.sh STEPS BUCKET ROUNDS SITE... To resume, repeat the command.
set -eu
steps=$1 bucket=$2 rounds=$3 copy=${COPY:-rclone copyto --ignore-times} move=${MOVE:-rclone moveto --ignore-existing}
# get OBJECT FOLDER: fetch and unpack a parcel, without files above LIMIT blocks of 512 bytes (4 GiB).
get() { test -e "$2" || (ulimit -f "${LIMIT:-8388608}" && $copy "$1" sealed && ${OPEN:-cat} <sealed >parcel &&
    sh "$(dirname "$0")/unpack.sh" parcel "$2") && came=$((came + 1)); }
shift 3 && need=${EXPECT:-$#} && for round in $(seq 0 "$rounds"); do
    put=put/$round object=$bucket/server/$round.tar end=$(($(date +%s) + ${WAIT:-86400})) came=0
    # The first result closes the round: later uploads are ignored.
    until test "$round" = 0 || test -e "$put" || test $came -ge $(($(date +%s) < end ? need : ${AT_LEAST:-2})); do
        came=0 && for site; do get "$bucket/$site/$round.tar" "got/$round/$site" 2>copy.log || sleep "${PAUSE:-5}"; done
    done
    # A step that fails, for example with 75 for too few valid uploads, opens the round again.
    sh "$steps" server "$round" || { code=$? && rm -rf "$put" && exit $code; }
    (cd "$put" && find . -name '*.safetensors' -o -name '*.sig' | tar -c --owner=0 --group=0 --mtime=@0 -T -) >parcel
    test -e "$put.tar" || { ${SEAL:-cat} <parcel >sealed && mv sealed "$put.tar"; }
    # An earlier object is never replaced: the stored object must have the bytes of the parcel.
    $copy "$object" stored 2>copy.log || { $copy "$put.tar" "$object.part" && $move "$object.part" "$object"; }
    $copy "$object" stored && cmp "$put.tar" stored || exit 65
done
