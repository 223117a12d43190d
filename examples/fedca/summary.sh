#!/bin/sh
# Print the scores of the runs of FedCA's tables, and the paper's numbers.
#
#   summary.sh FURLKIT OUT DATASET-ENCODER ROUNDS
#
# Missing rows are left out. Numbers are in percent: mean and standard deviation over
# seeds, the paper's number, and the difference to FedSimCLR, paired by seed, with its
# 95 % interval.
set -eu
furlkit=$1 out=$2 what=$3 rounds=$4
last=r$(printf %03d "$rounds")
paper=$(dirname "$0")/paper.csv

. "$(dirname "$0")/../joined.sh"

# add LABEL ROW SCORE FOLDER FILE: add a line to the table, with the paper's number
add() {
    files=$(joined "$out/$what-$setting/$2"/seed*/"$4/$5.json")
    if [ -z "$files" ]; then return; fi
    lines="$lines --series '$1=$files'"
    printed=$(awk -F, -v key="$3,${what%-*},${what#*-},$setting,${6:-$2}" \
        'index($0, key ",") == 1 { print $6 }' "$paper")
    if [ -n "$printed" ]; then lines="$lines --published '$1=$printed'"; fi
    if [ "$2" = fedsimclr ] && [ "$1" = FedSimCLR ]; then
        lines="$lines --reference FedSimCLR"
    fi
}

# table TITLE SCORE: print a table for the round and runs of the command line
table() {
    lines=
    case $2 in
    linear) add 'untrained network' fedsimclr none r000 linear ;;
    semi*) add FedAvg fedsimclr "$2" "$last" "fedavg${2#semi}" fedavg ;;
    to_*) add 'random weights' fedsimclr "$2" "$last" "scratch_${2#to_}" scratch ;;
    esac
    add FedAE fedae "$2" "$last" "$2"
    add FedPR fedpr "$2" "$last" "$2"
    add FedSimCLR fedsimclr "$2" "$last" "$2"
    add '+ alignment' align "$2" "$last" "$2"
    add '+ dictionary' dictionary "$2" "$last" "$2"
    add '+ ensembled dictionary' ensemble "$2" "$last" "$2"
    add FedCA fedca "$2" "$last" "$2"
    if [ -n "$lines" ]; then
        echo
        echo "$1, $setting, $what, round $rounds"
        eval "$furlkit compare $lines"
    fi
}

for setting in iid noniid; do
    table 'Linear evaluation (Table 1, Figure 5)' linear
    table '1 % of the labels (Table 2)' semi1
    table '10 % of the labels (Table 2)' semi10
    for file in "$out/$what-$setting"/*/seed*/"$last"/to_*.json; do
        if [ -e "$file" ]; then basename "$file" .json; fi
    done | sort -u | while read -r score; do
        table "Transfer to ${score#to_} (Table 3)" "$score"
    done
done
