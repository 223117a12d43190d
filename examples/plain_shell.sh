#!/bin/sh
# The rounds of fedsimclr/recipe.toml in a loop by hand: on digits, about a minute.
# Settings are variables: ROUNDS=5 FRACTION=0.6 SEED=1 OUT=exp sh plain_shell.sh
# After a kill, repeat the command: the script resumes and gives equal bytes.
set -eu
OUT=${OUT:-exp} DATA=${DATA:-digits} PRESET=${PRESET:-digits} SEED=${SEED:-0}
CLIENTS=${CLIENTS:-5} ROUNDS=${ROUNDS:-3} FRACTION=${FRACTION:-1}
# Options and the launcher may have several words and are not quoted.
run="${LAUNCH:-} ${FURLKIT:-furlkit}"
common="--preset $PRESET --data $DATA -q"

partition=$OUT/partition.safetensors here=$OUT/r000
test -e "$partition" ||
    $run partition $common --seed "$SEED" --clients "$CLIENTS" ${PARTITION:-} -o "$partition"
test -e "$here/global.safetensors" ||
    $run init $common --seed "$SEED" ${INIT:-} -o "$here/global.safetensors"

for round in $(seq "$ROUNDS"); do
    before=$here here=$(printf '%s/r%03d' "$OUT" "$round")
    if ! test -e "$here/global.safetensors"; then
        drawn=$(${FURLKIT:-furlkit} sample --clients "0-$((CLIENTS - 1))" \
            --fraction "$FRACTION" --rounds "$round" --seed "$SEED")
        $run local-train "$partition" "$before/global.safetensors" $common --seed "$SEED" \
            --client "$(echo "$drawn" | cut -d / -f 2 | paste -s -d , -)" ${TRAIN:-} \
            -o "$here/client_{client}.safetensors"
        $run aggregate "$here"/client_*.safetensors --parent "$before/global.safetensors" \
            --preset "$PRESET" ${AGGREGATE:-} -o "$here/global.safetensors"
    fi
    test -e "$here/knn.json" ||
        $run evaluate knn "$here/global.safetensors" $common ${KNN:-} -o "$here/knn.json"
done
