#!/bin/sh
# Self-made certificates for a trial: sh certificates.sh HOST writes ca.* and link.*, once.
set -eu
test -e link.crt && exit
name="subjectAltName=IP:$1"
openssl req -x509 -newkey rsa:3072 -nodes -days 365 -subj "/CN=furlkit trial" -keyout ca.key -out ca.crt
openssl req -newkey rsa:3072 -nodes -subj "/CN=$1" -addext "$name" -keyout link.key -out link.csr
openssl x509 -req -in link.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 365 -copy_extensions copy -out link.new
mv link.new link.crt
