#!/bin/sh
# The SuperLink: sh link.sh HOST PORT, in a folder with ca.crt, link.crt and link.key.
set -eu
export FLWR_TELEMETRY_ENABLED=0 FLWR_DISABLE_UPDATE_CHECK=1
echo $$ >link.pid
exec flower-superlink --host "$1" --port "$2" --database link.db --enable-supernode-auth \
    --ssl-ca-certfile ca.crt --ssl-certfile link.crt --ssl-keyfile link.key \
    --disable-runtime-dependency-installation
