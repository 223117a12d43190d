#!/bin/sh
# FedCA, one round. README.md explains the arguments and the folders got, put and kept.
# shellcheck disable=SC2086 # INIT, TRAIN and others hold several words
set -eu
round=$2 last=$(($2 - 1)) furlkit=${FURLKIT:-furlkit} trust=${SIGNERS:+--signers $SIGNERS}
case $1:$round in
server:0)
    $furlkit init --image-size 64 --channels 3 ${INIT:---width 0.25} -o put/0/global.safetensors
    $furlkit pretrain-align put/0/global.safetensors --data "$PUBLIC" ${ALIGN:-} \
        --targets-out put/0/targets.safetensors -o kept/align.safetensors ;;
server:*)
    $furlkit aggregate got/"$round"/*/model --at-least "${AT_LEAST:-2}" $trust ${AGGREGATE:-} \
        --parent "put/$last/global.safetensors" --record "kept/global_$round.record" -o "put/$round/global.safetensors"
    $furlkit aggregate --rule dictionary got/"$round"/*/rows --at-least "${AT_LEAST:-2}" $trust ${POOL:-} \
        --parent "put/$last/global.safetensors" --record "kept/dictionary_$round.record" -o "put/$round/dictionary.safetensors"
    # A site that joins late needs the targets, so every round carries the targets.
    cp put/0/targets.safetensors "put/$round/targets.safetensors" ;;
site:*)
    name=$3 images=$4
    set -- --align "got/$last/targets.safetensors" --align-data "$PUBLIC"
    test "$last" -eq 0 || set -- "$@" --dictionary "got/$last/dictionary.safetensors"
    for old in $(seq "$last" -1 1); do # the newest Z: the site may have missed rounds
        if test -e "kept/$old.safetensors"; then set -- "$@" --private "kept/$old.safetensors"; break; fi
    done
    $furlkit local-train "got/$last/global.safetensors" --client "$name" --data "$images" "$@" $trust ${TRAIN:-} \
        --participants "${PARTICIPANTS:-3}" --features-out "put/$round/rows/$name.safetensors" \
        --private-out "kept/$round.safetensors" -o "put/$round/model/$name.safetensors" ;;
esac
if test -n "${KEY:-}"; then find "put/$round" -name '*.safetensors' -exec $furlkit sign --key "$KEY" {} +; fi
