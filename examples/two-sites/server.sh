#!/bin/sh
# The server: sh server.sh EXCHANGE ROUNDS. To resume, repeat the command.
# With KEY the server signs the models, with SIGNERS only members take part: see README.md.
set -eu
exchange=$1 rounds=$2 furlkit=${FURLKIT:-furlkit}
sign() { test -z "${KEY:-}" || $furlkit sign "$1" --key "$KEY"; }
mkdir -p "$exchange/inbox" "$exchange/outbox"
$furlkit init --image-size 64 --channels 3 ${INIT:---width 0.25} -o "$exchange/outbox/global_0.safetensors"
sign "$exchange/outbox/global_0.safetensors"
for round in $(seq "$rounds"); do
    $furlkit aggregate "$exchange/inbox" --at-least 2 --wait "${WAIT:-1d}" ${SIGNERS:+--signers "$SIGNERS"} \
        --parent "$exchange/outbox/global_$((round - 1)).safetensors" --record "$exchange.kept/global_$round.record" -o "$exchange/outbox/global_$round.safetensors"
    sign "$exchange/outbox/global_$round.safetensors"
done
