#!/bin/sh
# A site: sh site.sh NAME IMAGES EXCHANGE ROUNDS. To resume, repeat the command.
# The script skips rounds with a sent upload, and rounds closed by the server.
# With KEY the site signs the uploads, with SIGNERS it checks the server's signatures.
set -eu
name=$1 images=$2 exchange=$3 rounds=$4 furlkit=${FURLKIT:-furlkit} copy=${COPY:-cp}
mkdir -p "$name"
for round in $(seq "$rounds"); do
    test -e "$name/sent_$round" || $copy "$exchange/outbox/global_$round.safetensors" "$name/" 2>"$name/copy.log" && continue
    global=global_$((round - 1)).safetensors upload=$name/upload_$round.safetensors
    for file in "$global" ${SIGNERS:+"$global.sig"}; do until $copy "$exchange/outbox/$file" "$name/$file" 2>"$name/copy.log"; do sleep "${PAUSE:-5}"; done; done
    $furlkit local-train "$name/$global" --data "$images" --client "$name" ${SIGNERS:+--signers "$SIGNERS"} ${TRAIN:-} -o "$upload"
    $furlkit inspect --outgoing "$upload" >"$name/outgoing_$round.txt"
    test -z "${KEY:-}" || $furlkit sign "$upload" --key "$KEY"
    for end in ${KEY:+.sig} ""; do $copy "$upload$end" "$exchange/inbox/${name}_$round.safetensors$end"; done
    touch "$name/sent_$round"
done
