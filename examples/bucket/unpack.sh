#!/bin/sh
# sh unpack.sh PARCEL FOLDER: unpack regular files with plain names, and nothing else.
# The writer of a parcel may have put links, pipes, devices, folders without rights and any name into it.
set -eu
parcel=$1 folder=$2
if test -e new; then chmod -R u+rwX new && rm -rf new; fi
mkdir -p new "$(dirname "$folder")"
tar -xof "$parcel" -C new --no-same-permissions --wildcards '*.s*'
chmod -R u+rwX new
find new -depth \( -name '*[!A-Za-z0-9._-]*' -o -name '[.-]*' -o ! -type d ! -name '*.safetensors' ! -name '*.sig' \
    -o ! -type d ! -type f \) -exec rm -rf {} +
mv new "$folder"
