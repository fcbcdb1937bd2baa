-- Statements of postgres-keys.ts.

-- name: api_key_columns
key_id, hash, organisation, permissions, profile, rate_per_second, rate_burst, client_certificate, note, created_at,
expires_at, revoked_at, rotated_from, replaced_by

-- name: api_keys
SELECT :api_key_columns FROM api_keys ORDER BY created_order

-- name: api_key
SELECT :api_key_columns FROM api_keys WHERE key_id = $1

-- name: insert_api_key
INSERT INTO api_keys (:api_key_columns) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)

-- name: has_api_keys
SELECT 1 FROM api_keys LIMIT 1

-- Locks its row until the transaction ends: writers take turns.
-- name: count_key_change
UPDATE key_changes SET version = version + 1

-- name: key_changes
SELECT version FROM key_changes

-- name: replace_api_key
UPDATE api_keys SET replaced_by = $2, expires_at = least($3::bigint, coalesce(expires_at, $3::bigint)) WHERE key_id = $1

-- name: revoke_api_key
UPDATE api_keys SET revoked_at = coalesce(revoked_at, $2) WHERE key_id = $1
