#!/bin/sh
# Start a run with files of another run. Existing files are not copied again, and a file is
# copied whole or not at all; it keeps its date, so make considers it done.
#
#   copy.sh FROM TO FILE...
set -eu
from=$1 to=$2 part=
shift 2
trap 'test -z "$part" || rm -f "$part"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

for file in "$@"; do
    if [ -e "$to/$file" ]; then continue; fi
    folder=$(dirname "$to/$file")
    part=$folder/.$(basename "$file").part$$
    mkdir -p "$folder"
    cp -p "$from/$file" "$part"
    mv "$part" "$to/$file"
done
