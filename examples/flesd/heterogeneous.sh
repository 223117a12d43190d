#!/bin/sh
# FLESD with clients of different architectures: cnn5, ResNet-18 and ResNet-50, distilled
# into a ResNet-18. Each client continues from the client's model, not from the server's, and
# weights never leave a client. On digits, two rounds, 5 minutes on one core; k-NN accuracy
# is 84.4 % at the end and 83.0 % untrained.
#
#   FURLKIT='furlkit' OUT=exp/heterogeneous sh examples/flesd/heterogeneous.sh
set -eu
furlkit=${FURLKIT:-furlkit} out=${OUT:-exp/heterogeneous} rounds=${ROUNDS:-2}
run='--data digits --run-name heterogeneous' # one run of several networks
train='--data digits --batch-size 64 --crop-scale 0.4,1 --flip 0 --jitter 0.4,0.4,0,0
    --grey 0 --lr 3e-4 -q'
mkdir -p "$out/r000"

# make_once OUTPUT COMMAND...: run the command unless OUTPUT exists
make_once() {
    output=$1
    shift
    test -e "$output" || $furlkit "$@" -o "$output"
}

make_once "$out/partition.safetensors" partition --data digits --clients 4 --public-client 0
make_once "$out/r000/global.safetensors" init $run --encoder resnet18
make_once "$out/r000/client_1.safetensors" init $run --encoder cnn5 --width 0.25
make_once "$out/r000/client_2.safetensors" init $run --encoder resnet18 --seed 1
make_once "$out/r000/client_3.safetensors" init $run --encoder resnet50

for round in $(seq "$rounds"); do
    here=$out/r$(printf %03d "$round") before=$out/r$(printf %03d $((round - 1)))
    for client in 1 2 3; do
        make_once "$here/client_$client.safetensors" local-train \
            "$out/partition.safetensors" "$before/client_$client.safetensors" \
            --update keep --client "$client" --epochs 5 --temperature 0.2 $train
        make_once "$here/public_$client.safetensors" embed \
            "$here/client_$client.safetensors" --data digits --layer z \
            --partition "$out/partition.safetensors" --part public
    done
    make_once "$here/ensemble.safetensors" aggregate --rule ensemble \
        "$here/public_1.safetensors" "$here/public_2.safetensors" "$here/public_3.safetensors"
    make_once "$here/global.safetensors" distill "$here/ensemble.safetensors" \
        "$before/global.safetensors" --anchors 256 --epochs 10 $train
    make_once "$here/knn.json" evaluate knn "$here/global.safetensors" --data digits
done
