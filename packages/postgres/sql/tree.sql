-- Statements of postgres-tree.ts.

-- name: tiles
SELECT tile, hashes FROM tiles WHERE level = $1 AND tile BETWEEN $2 AND $3 ORDER BY tile

-- name: last_tile
SELECT tile, length(hashes) FROM tiles WHERE level = $1 ORDER BY tile DESC LIMIT 1

-- Several sequencers may write the same hashes, which are equal: a write overlays another and never shortens it.
-- name: begin_tiles
INSERT INTO tiles AS t (level, tile, hashes)
SELECT level, tile, hashes
FROM unnest($1::smallint[], $2::bigint[], $3::int[], $4::bytea[]) AS p (level, tile, at, hashes)
ON CONFLICT (level, tile) DO UPDATE SET hashes = overlay(t.hashes PLACING excluded.hashes FROM 1)

-- name: fill_tiles
UPDATE tiles t SET hashes = overlay(t.hashes PLACING p.hashes FROM p.at + 1)
FROM unnest($1::smallint[], $2::bigint[], $3::int[], $4::bytea[]) AS p (level, tile, at, hashes)
WHERE t.level = p.level AND t.tile = p.tile AND length(t.hashes) >= p.at

-- name: published
SELECT note FROM published

-- name: publish_first
INSERT INTO published (note) VALUES ($1) ON CONFLICT DO NOTHING

-- name: publish_next
UPDATE published SET note = $2, signed_at = clock_timestamp() WHERE note = $1

-- name: keep_checkpoint
INSERT INTO checkpoints (size, note) VALUES ($1, $2) ON CONFLICT (size) DO NOTHING

-- name: checkpoints
SELECT size, note FROM checkpoints ORDER BY size
