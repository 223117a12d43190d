#!/bin/sh
# The node of a site: sh node.sh LINK NAME IMAGES STEPS PORT, in the site's folder. The folder
# has the server's ca.crt and the node's key, NAME.key. PORT is for programs of this machine.
set -eu
config="name=\"$2\" images=\"$(realpath "$3")\" steps=\"$(realpath "$4")\" folder=\"$PWD\""
export FLWR_TELEMETRY_ENABLED=0 FLWR_DISABLE_UPDATE_CHECK=1
echo $$ >node.pid
exec flower-supernode --superlink "$1" --root-certificates ca.crt --port "$5" \
    --auth-supernode-private-key "$2.key" --node-config "$config"
