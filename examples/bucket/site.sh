#!/bin/sh
# A site: sh site.sh STEPS NAME IMAGES BUCKET ROUNDS. To resume, repeat the command.
set -eu
steps=$1 name=$2 images=$3 bucket=$4 rounds=$5
copy=${COPY:-rclone copyto --ignore-times} move=${MOVE:-rclone moveto --ignore-existing}
# get ROUND: fetch and unpack the server's parcel, without files above LIMIT blocks of 512 bytes (4 GiB).
get() { test -e "got/$1" || (ulimit -f "${LIMIT:-8388608}" && $copy "$bucket/server/$1.tar" sealed 2>copy.log &&
    ${OPEN:-cat} <sealed >parcel && sh "$(dirname "$0")/unpack.sh" parcel "got/$1"); }
for round in $(seq "$rounds"); do
    if get "$round"; then continue; fi # the server has closed the round
    until get $((round - 1)); do sleep "${PAUSE:-5}"; done
    put=put/$round object=$bucket/$name/$round.tar
    sh "$steps" site "$round" "$name" "$images"
    (cd "$put" && find . -name '*.safetensors' -o -name '*.sig' | tar -c --owner=0 --group=0 --mtime=@0 -T -) >parcel
    test -e "$put.tar" || { ${SEAL:-cat} <parcel >sealed && mv sealed "$put.tar"; }
    # An earlier object is never replaced: the stored object must have the bytes of the parcel.
    $copy "$object" stored 2>copy.log || { $copy "$put.tar" "$object.part" && $move "$object.part" "$object"; }
    $copy "$object" stored && cmp "$put.tar" stored || exit 65
done
