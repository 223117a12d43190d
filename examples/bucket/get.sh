#!/bin/sh
# sh get.sh OBJECT FOLDER: fetch an object of put.sh, and unpack the files into a new folder.
set -eu
if test -e "$2"; then exit; fi
rm -rf got.files got.sealed
mkdir -p got.files "${2%/*}"
${COPY:-rclone copyto --ignore-times} "$1" got.sealed
${OPEN:-cat} <got.sealed >got.tar
tar -tvf got.tar >got.names
if grep '^[^d-]' got.names >&2; then exit 65; fi # links and devices are refused
tar -xf got.tar --no-same-owner -C got.files
mv got.files "$2"
