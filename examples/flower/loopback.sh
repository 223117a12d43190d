#!/bin/sh
# A trial on this machine: sh loopback.sh FOLDER STEPS ROUNDS SITE=IMAGES... To resume, repeat.
# shellcheck disable=SC2046,SC2086 # numbers of processes
set -eu
here=$(realpath "$(dirname "$0")") steps=$(realpath "$2") rounds=$3 start=$PWD nodes='' run=''
host=${HOST:-127.0.0.1} port=${PORT:-9443} top=$(realpath -m "$1") && shift 3
export FLWR_HOME="$top/flwr" FLWR_TELEMETRY_ENABLED=0 FLWR_DISABLE_UPDATE_CHECK=1
mkdir -p "$top/server" "$top/keys" "$FLWR_HOME"
rm -f "$top"/*/node.pid "$top/stop"
printf '[superlink.trial]\naddress = "%s"\nroot-certificates = "%s"\n' \
    "$host:$port" "$top/server/ca.crt" >"$FLWR_HOME/config.toml"

stop() { # the nodes first: the SuperLink learns that the nodes are gone
    touch "$top/stop"
    kill $run $(cat "$top"/*/node.pid) || :
    wait $nodes || :
    kill $link || :
    wait $link || :
}

cd "$top/server"
sh "$here/certificates.sh" "$host" >>"$top/certificates.log" 2>&1
sh "$here/link.sh" "$host" "$port" >>"$top/link.log" 2>&1 &
link=$!
trap 'stop 2>/dev/null' EXIT
trap 'exit 143' TERM INT
until flwr supernode list trial >/dev/null 2>&1; do
    kill -0 $link
    sleep 1
done
for site; do
    name=${site%%=*} port=$((port + 1))
    mkdir -p "$top/$name" && cd "$top/$name" && cp "$top/server/ca.crt" .
    test -e "$name.key" || ssh-keygen -q -t ecdsa -b 384 -N '' -C "$name" -f "$name.key"
    if ! test -e "$top/keys/$name.pub"; then
        flwr supernode register "$name.key.pub" trial --name "$name"
        cp "$name.key.pub" "$top/keys/$name.pub"
    fi
    images=$(cd "$start" && realpath "${site#*=}")
    set -- "$host:${PORT:-9443}" "$name" "$images" "$steps" $port
    # For a minute after a crash, the SuperLink refuses a second node with the key.
    until ${ENTER:+$ENTER$name} sh "$here/node.sh" "$@" || test -e "$top/stop"; do
        sleep 5
    done >>"$top/$name.log" 2>&1 &
    nodes="$nodes $!"
done
flwr run "$here" trial --stream --run-config \
    "steps=\"$steps\" folder=\"$top/server\" keys=\"$top/keys\" rounds=$rounds ${RUN:-}" &
run=$!
wait $run # a signal ends the wait
test -e "$top/server/put/$rounds/global.safetensors"
