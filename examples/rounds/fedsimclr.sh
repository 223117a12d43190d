#!/bin/sh
# FedSimCLR, one round. README.md explains the arguments and the folders got, put and kept.
# shellcheck disable=SC2086 # INIT, TRAIN and others hold several words
set -eu
round=$2 last=$(($2 - 1)) furlkit=${FURLKIT:-furlkit} trust=${SIGNERS:+--signers $SIGNERS}
case $1:$round in
server:0)
    $furlkit init --image-size 64 --channels 3 ${INIT:---width 0.25} -o put/0/global.safetensors ;;
server:*)
    $furlkit aggregate got/"$round"/*/model --at-least "${AT_LEAST:-2}" $trust ${AGGREGATE:-} \
        --parent "put/$last/global.safetensors" --record "kept/global_$round.record" -o "put/$round/global.safetensors" ;;
site:*)
    $furlkit local-train "got/$last/global.safetensors" --client "$3" --data "$4" $trust ${TRAIN:-} \
        -o "put/$round/model/$3.safetensors" ;;
esac
if test -n "${KEY:-}"; then find "put/$round" -name '*.safetensors' -exec $furlkit sign --key "$KEY" {} +; fi
