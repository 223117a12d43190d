#!/bin/sh
# A site: sh site.sh NAME IMAGES EXCHANGE ROUNDS. To resume, repeat the command.
# The script skips rounds with a sent upload, and rounds closed by the server.
set -eu
name=$1 images=$2 exchange=$3 rounds=$4 furlkit=${FURLKIT:-furlkit} copy=${COPY:-cp}
mkdir -p "$name"
for round in $(seq "$rounds"); do
    test -e "$name/sent_$round" || $copy "$exchange/outbox/global_$round.safetensors" "$name/" 2>"$name/copy.log" && continue
    global=global_$((round - 1)).safetensors upload=$name/upload_$round.safetensors
    until $copy "$exchange/outbox/$global" "$name/$global" 2>"$name/copy.log"; do sleep "${PAUSE:-5}"; done
    $furlkit local-train "$name/$global" --data "$images" --client "$name" ${TRAIN:-} -o "$upload"
    $furlkit inspect --outgoing "$upload" >"$name/outgoing_$round.txt"
    $copy "$upload" "$exchange/inbox/${name}_$round.safetensors"
    touch "$name/sent_$round"
done
