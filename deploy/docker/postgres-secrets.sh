#!/bin/sh
# Makes the secrets of deploy/compose.postgres.yaml, in deploy/secrets or the given directory. Run it as root, because
# each secret belongs to the user that reads it:  sudo sh deploy/docker/postgres-secrets.sh
# Secrets that exist are kept: the database has the same passwords.
set -eu
directory=${1:-$(dirname "$0")/../secrets}
# The users of the two images.
collector=10001
postgres=999

umask 077
mkdir -p "$directory"
cd "$directory"

password() { [ -e "$1" ] || openssl rand -hex 24 >"$1"; }
pgpass() { grep -qs ":$2:" "$1" || printf '*:*:*:%s:%s\n' "$2" "$(cat "$3")" >>"$1"; }
# A self-signed certificate, for the network within one host.
certificate() {
  [ -e "$1.key" ] || openssl req -x509 -newkey rsa:3072 -nodes -days 3650 -subj "/CN=$2" \
    -addext "subjectAltName=DNS:$2" -keyout "$1.key" -out "$1.crt" 2>/dev/null
}

password operator-token
password owner-password
password collector-password
password keys-password
pgpass owner.pgpass collector_owner owner-password
pgpass collector.pgpass collector collector-password
pgpass collector.pgpass collector_keys keys-password
# The KEK of the payload keys.
[ -e kek ] || openssl rand -base64 32 >kek
certificate server postgres
certificate keys-server postgres-keys

# Certificates are public. The other files are for their owners alone, as libpq demands of a password file.
chmod 0644 server.crt keys-server.crt
chmod 0711 .
[ "$(id -u)" -eq 0 ] || exit 0
chown "$collector" operator-token owner.pgpass collector-password collector.pgpass kek
chown "$postgres" owner-password server.key keys-password keys-server.key
