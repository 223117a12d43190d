#!/bin/sh
# What the runs of FLESD's Table 1 have come to, beside what the paper prints.
#
#   summary.sh FURLKIT OUT DATASET ALPHAS
#
# Rows that are not there are left out. Numbers are percent: mean and standard deviation
# over seeds, the paper's, and the difference to FedAvg paired by seed with its 95 %
# interval. The line `client K alone` is that client's own model; the paper's Min-Local is
# the worst of them.
set -eu
furlkit=$1 out=$2 dataset=$3
paper=$(dirname "$0")/paper.csv

. "$(dirname "$0")/../joined.sh"

# add LABEL ROW FILE: a line of the table, and what the paper has there
add() {
    files=$(joined "$out/$dataset-$alpha/$2"/seed*/"$3.json")
    if [ -z "$files" ]; then return; fi
    lines="$lines --series '$1=$files'"
    printed=$(awk -F, -v key="$dataset,$alpha,$2" \
        'index($0, key ",") == 1 { print $4 }' "$paper")
    case $1 in
    client*) ;;
    *) if [ -n "$printed" ]; then lines="$lines --published '$1=$printed'"; fi ;;
    esac
    if [ "$1" = FedAvg ]; then lines="$lines --reference FedAvg"; fi
}

for alpha in $4; do
    lines=
    add 'all in one place' nonfl r001/linear
    for client in 1 2 3 4 5; do
        add "client $client alone" cc "r001/linear_$client"
    done
    add FedAvg fedavg r010/linear
    add FedProx fedprox r010/linear
    add FLESD flesd r002/linear
    add FLESD-cc cc r001/linear
    if [ -n "$lines" ]; then
        echo
        echo "Linear evaluation (Table 1), $dataset, alpha $alpha"
        eval "$furlkit compare $lines"
    fi
done
