#!/bin/sh
# sh put.sh FOLDER OBJECT: send the files of a folder as one object. Repeat to resume.
set -eu
copy=${COPY:-rclone copyto --ignore-times} && rm -f put.check
if test -e "$1.sent"; then exit; fi
if ! test -e "$1.tar"; then
    (cd "$1" && find . -name '*.safetensors' -o -name '*.sig') >put.names
    tar -cf put.tar --owner=0 --group=0 --mtime=@0 -C "$1" -T "$PWD/put.names"
    ${SEAL:-cat} <put.tar >put.sealed
    mv put.sealed "$1.tar"
fi
$copy "$1.tar" "$2.part"
${MOVE:-rclone moveto --ignore-existing} "$2.part" "$2"
$copy "$2" put.check
cmp "$1.tar" put.check || exit 65 # an earlier object is never replaced
mv "$1.tar" "$1.sent"
