#!/bin/sh
# Make the role and the database of a ledger, once; the password is that of a file as libpq reads it.
#   run by PostgreSQL's image, or: sh role.sh ~/.pgpass
# psql reads the password itself: every user of a machine can read arguments.
set -eu
file=${1:-/run/secrets/pgpass}
export file
psql --username postgres --set ON_ERROR_STOP=1 <<'SQL'
\set password `cut -d: -f5 "$file"`
CREATE ROLE sightline LOGIN PASSWORD :'password';
CREATE DATABASE sightline OWNER sightline;
SQL
