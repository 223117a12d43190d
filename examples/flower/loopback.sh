#!/bin/sh
# A federation on this machine: sh loopback.sh FOLDER STEPS ROUNDS SITE=IMAGES...
# TLS with self-made certificates, a key for each node. To resume, repeat the command.
set -eu
here=$(realpath "$(dirname "$0")") folder=$(realpath -m "$1") steps=$(realpath "$2") rounds=$3 && shift 3
port=${PORT:-9443} link=127.0.0.1:$port days=3650
export FLWR_HOME="$folder/flwr" FLWR_TELEMETRY_ENABLED=0 FLWR_DISABLE_UPDATE_CHECK=1
mkdir -p "$folder/keys" "$FLWR_HOME" "$folder/server"
cd "$folder"
# Certificates: an authority, and the SuperLink, signed by the authority.
test -e ca.crt || openssl req -x509 -newkey rsa:3072 -nodes -keyout ca.key -out ca.crt -days $days \
    -subj /CN=furlkit-loopback -addext basicConstraints=critical,CA:TRUE 2>openssl.log
if ! test -e server.crt; then
    printf 'subjectAltName=DNS:localhost,IP:127.0.0.1\n' >san
    openssl req -newkey rsa:3072 -nodes -keyout server.key -out server.csr -subj /CN=localhost 2>>openssl.log
    openssl x509 -req -in server.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days $days -extfile san -out server.crt 2>>openssl.log
fi
printf '[superlink]\ndefault = "loopback"\n[superlink.loopback]\naddress = "%s"\nroot-certificates = "%s"\n' \
    "$link" "$folder/ca.crt" >"$FLWR_HOME/config.toml"
trap 'kill $pids 2>/dev/null || :' EXIT
flower-superlink --host 127.0.0.1 --port "$port" --database "$folder/superlink.db" --enable-supernode-auth \
    --ssl-ca-certfile ca.crt --ssl-certfile server.crt --ssl-keyfile server.key \
    --disable-runtime-dependency-installation >>superlink.log 2>&1 &
pids=$!
until flwr supernode list loopback >/dev/null 2>>superlink.log; do kill -0 $pids && sleep 1; done
node=$port
for site; do
    name=${site%%=*} node=$((node + 1))
    test -e "$name.key" || ssh-keygen -q -t ecdsa -b 384 -N '' -C "$name" -f "$name.key"
    test -e "keys/$name.pub" || { flwr supernode register "$name.key.pub" loopback && cp "$name.key.pub" "keys/$name.pub"; }
    flower-supernode --superlink "$link" --root-certificates ca.crt --auth-supernode-private-key "$name.key" --port $node \
        --node-config "name=\"$name\" images=\"$(realpath "${site#*=}")\" folder=\"$folder/$name\" steps=\"$steps\"" >>"$name.log" 2>&1 &
    pids="$pids $!"
done
flwr run "$here" loopback --stream --run-config "steps=\"$steps\" folder=\"$folder/server\" keys=\"$folder/keys\" rounds=$rounds ${RUN:-}"
test -e "server/put/$rounds/global.safetensors"
