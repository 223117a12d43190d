#!/bin/sh
# Three hospitals with scans in different formats train one encoder in three rounds.
#   sh examples/hospital/run.sh [OUT]
# One minute on two cores. Only OUT/r00N/SITE.safetensors leaves a site.
set -eu
here=$(dirname "$0")
out=${1:-exp/hospital}
FURLKIT=${FURLKIT:-furlkit}
PYTHON=${PYTHON:-python}
PATIENTS=${PATIENTS:-40}
TRAIN=${TRAIN:---epochs 5 --batch-size 32}
INIT=${INIT:---width 0.25}
sites='north st-mary lakeside'
window=-160,240  # soft tissue, in Hounsfield units; equal at every site

"$PYTHON" "$here/scans.py" "$out/scans" "$PATIENTS"

# At each site: draw the scans in the form that the network sees, then pack the scans. The
# scans of a patient are in one split, train or test.
for site in $sites; do
    $FURLKIT check -q "$out/scans/$site" --cache "$out/cache" \
        --window $window --channels 1 --sheet "$out/$site.png"
    for split in train test; do
        $FURLKIT pack "$out/scans/$site" --window $window --image-size 32 \
            --groups folder --train-fraction 0.7 --split $split \
            -o "$out/$site/$split.safetensors"
    done
done

# The model stores the server's window; a site with another window is refused.
mkdir -p "$out/r000"
$FURLKIT init --image-size 32 --channels 1 --window $window $INIT \
    -o "$out/r000/global.safetensors"

for round in 1 2 3; do
    before=$(printf '%s/r%03d' "$out" $((round - 1)))
    now=$(printf '%s/r%03d' "$out" $round)
    for site in $sites; do
        $FURLKIT local-train "$before/global.safetensors" --preset medical $TRAIN \
            --data "$out/$site/train.safetensors" --client $site \
            -o "$now/$site.safetensors"
    done
    $FURLKIT aggregate "$now"/north.safetensors "$now"/st-mary.safetensors \
        "$now"/lakeside.safetensors --parent "$before/global.safetensors" \
        -o "$now/global.safetensors"
done

for site in $sites; do
    for round in 000 003; do
        $FURLKIT evaluate knn "$out/r$round/global.safetensors" --k 10 \
            --data "$out/$site/train.safetensors" \
            --test-data "$out/$site/test.safetensors" -o "$out/r$round/knn_$site.json"
    done
done
$FURLKIT export "$out/r003/global.safetensors" -o "$out/encoder"
