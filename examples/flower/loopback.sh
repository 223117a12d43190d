#!/bin/sh
# A trial on this machine: sh loopback.sh FOLDER STEPS ROUNDS SITE=IMAGES... To resume, repeat.
set -eu
here=$(realpath "$(dirname "$0")") steps=$(realpath "$2") rounds=$3
host=${HOST:-127.0.0.1} port=${PORT:-9443} top=$(realpath -m "$1") start=$PWD && shift 3
export FLWR_HOME="$top/flwr" FLWR_TELEMETRY_ENABLED=0 FLWR_DISABLE_UPDATE_CHECK=1
mkdir -p "$top/server" "$top/keys" "$FLWR_HOME"
printf '[superlink.trial]\naddress = "%s"\nroot-certificates = "%s"\n' "$host:$port" "$top/server/ca.crt" >"$FLWR_HOME/config.toml"
cd "$top/server"
sh "$here/certificates.sh" "$host" >>"$top/certificates.log" 2>&1
sh "$here/link.sh" "$host" "$port" >>"$top/link.log" 2>&1 &
echo $! >"$top/link.pid"
trap 'kill $(cat "$top"/*.pid) 2>/dev/null || :' EXIT
until flwr supernode list trial >/dev/null 2>&1; do kill -0 "$(cat "$top/link.pid")"; sleep 1; done
number=0
for site; do
    name=${site%%=*} number=$((number + 1))
    mkdir -p "$top/$name" && cd "$top/$name" && cp "$top/server/ca.crt" .
    test -e "$name.key" || ssh-keygen -q -t ecdsa -b 384 -N '' -C "$name" -f "$name.key"
    if ! test -e "$top/keys/$name.pub"; then
        flwr supernode register "$name.key.pub" trial --name "$name"
        cp "$name.key.pub" "$top/keys/$name.pub"
    fi
    images=$(cd "$start" && realpath "${site#*=}")
    ${ENTER:+$ENTER$name} sh "$here/node.sh" "$host:$port" "$name" "$images" "$steps" $((port + number)) >>"$top/$name.log" 2>&1 &
    echo $! >"$top/$name.pid"
done
flwr run "$here" trial --stream --run-config "steps=\"$steps\" folder=\"$top/server\" keys=\"$top/keys\" rounds=$rounds ${RUN:-}"
test -e "$top/server/put/$rounds/global.safetensors"
