#!/bin/sh
# Make the role and the database of a ledger, once; the password is that of a file as libpq reads it.
#   run by PostgreSQL's image, or: sh role.sh ~/.pgpass
set -eu
psql --username postgres --set ON_ERROR_STOP=1 \
    --set password="$(cut -d: -f5 "${1:-/run/secrets/pgpass}")" <<'SQL'
CREATE ROLE sightline LOGIN PASSWORD :'password';
CREATE DATABASE sightline OWNER sightline;
SQL
