#!/usr/bin/env bash
# Certificates for one Dask cluster: make-certs.sh FOLDER [DAYS]. Whoever holds the folder may run code on the cluster.
set -euo pipefail
folder=${1:?the folder to make, such as ~/.config/distrf/tls} days=${2:-365}
[ ! -e "$folder/key.pem" ] || { echo "$folder has certificates already; remove it to make others" >&2; exit 1; }
umask 077
mkdir -p "$folder"
cd "$folder"
curve="-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes"
{
  openssl req -x509 $curve -days "$days" -subj /CN=distrf-authority -keyout ca.key -out ca.pem
  openssl req $curve -subj /CN=distrf -keyout key.pem -out request.pem
  openssl x509 -req -in request.pem -CA ca.pem -CAkey ca.key -set_serial 1 -days "$days" -out cert.pem
} 2> openssl.log || { cat openssl.log >&2; exit 1; }
rm ca.key request.pem openssl.log  # without its key the authority signs nobody else
