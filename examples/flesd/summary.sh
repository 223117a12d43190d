#!/bin/sh
# Print the scores of the runs of FLESD, and the paper's numbers.
#
#   FURLKIT=furlkit summary.sh OUT DATASET ALPHAS TABLE...
#
# A TABLE is table1, figure2 or encodings. Missing rows are left out. Numbers are in
# percent: mean and standard deviation over seeds, the paper's number, and the difference
# to FedAvg, or to FLESD-cc, paired by seed, with its 95 % interval. Min-Local is the worst
# client of a seed. Below the table: the bytes that all clients of a run sent and received,
# mean over seeds.
set -eu
furlkit=${FURLKIT:-furlkit} out=$1 dataset=$2 alphas=$3
shift 3
here=$(dirname "$0")

. "$here/../joined.sh"

# add LABEL ROW FILE...: add a line to the table, with the paper's number
add() {
    label=$1 row=$2
    shift 2
    files=$(joined "$@")
    if [ -z "$files" ]; then return; fi
    lines="$lines --series '$label=$files'"
    printed=$(awk -F, -v key="$dataset,$alpha,$row" \
        'index($0, key ",") == 1 { print $4 }' "$here/paper.csv" "$here/figure2.csv")
    if [ -n "$printed" ]; then lines="$lines --published '$label=$printed'"; fi
    case $label in
    "$reference") lines="$lines --reference '$label'" ;;
    Min-Local) lines="$lines --lowest '$label'" ;;
    esac
}

# traffic LABEL ROW FILE...: a line for the runs that are finished, with FILE
traffic() {
    label=$1
    shift 2
    for file in "$@"; do
        if [ -e "$file" ]; then $furlkit ledger "${file%/r[0-9]*/*}"; fi
    done | sed -n 's/.*: \([0-9,]*\) bytes sent, \([0-9,]*\) received;.*/\1 \2/p' |
        tr -d , | awk -v label="$label" '
            function commas(n, tail) {
                for (n = sprintf("%.0f", n); length(n) > 3; n = substr(n, 1, length(n) - 3))
                    tail = "," substr(n, length(n) - 2) tail
                return n tail
            }
            { sent += $1; received += $2 }
            END {
                if (NR)
                    printf "%-20s %5d %15s %15s %15s\n", label, NR, commas(sent / NR),
                        commas(received / NR), commas((sent + received) / NR)
            }'
}

# table TITLE: print the lines of add
table() {
    echo
    echo "$1, $dataset, alpha $alpha"
    eval "$furlkit compare $lines"
}

# costs EACH: print the lines of traffic, which EACH calls
costs() {
    found=$("$1" traffic)
    if [ -z "$found" ]; then return; fi
    echo
    printf '%-20s %5s %15s %15s %15s\n' bytes runs sent received 'in all'
    echo "$found"
}

# The rows with uploads; $1 is called for each.
methods() {
    "$1" FedAvg fedavg "$runs/fedavg"/seed*/r010/linear.json
    "$1" FedProx fedprox "$runs/fedprox"/seed*/r010/linear.json
    "$1" FLESD flesd "$runs/flesd"/seed*/r002/linear.json
    "$1" FLESD-cc cc "$runs/cc"/seed*/r001/linear.json
}

encodings() {
    "$1" float16 float16 "$runs/float16"/seed*/r001/linear.json
    "$1" int8 int8 "$runs/int8"/seed*/r001/linear.json
    "$1" 'top 1 %' top1 "$runs/top1"/seed*/r001/linear.json
    "$1" 'top 1 %, int8' top1-int8 "$runs/top1-int8"/seed*/r001/linear.json
    "$1" 'all similarities' full "$runs/full"/seed*/r001/linear.json
}

with_float32() {
    "$1" FLESD-cc cc "$runs/cc"/seed*/r001/linear.json
    encodings "$1"
}

table1() {
    reference=FedAvg
    add 'all in one place' nonfl "$out/$dataset-all/nonfl"/seed*/r001/linear.json
    add Min-Local minlocal "$runs/cc"/seed*/r001/linear_[0-9]*.json
    methods add
    if [ -z "$lines" ]; then return; fi
    table 'Linear evaluation (Table 1)'
    costs methods
}

figure2() {
    add SimCLR simclr "$runs/simclr"/seed*/r001/linear_[0-9]*.json
    add 'supervised, linear' supervised "$runs/supervised"/seed*/r001/linear_[0-9]*.json
    add 'supervised, own head' head "$runs/supervised"/seed*/r001/classifier_[0-9]*.json
    if [ -n "$lines" ]; then table 'Clients and seeds, each alone (Figure 2)'; fi
}

smaller() {
    reference=FLESD-cc
    encodings add
    if [ -z "$lines" ]; then return; fi
    lines=
    with_float32 add
    table 'What is sent in other encodings'
    costs with_float32
}

for what in "$@"; do
    for alpha in $alphas; do
        lines='' reference='' runs=$out/$dataset-$alpha
        case $what in
        table1) table1 ;;
        figure2) figure2 ;;
        encodings) smaller ;;
        *) echo "error: $what: use table1, figure2 or encodings" >&2 && exit 2 ;;
        esac
    done
done
