-- Statements of quarantine.ts.

-- Whether batch b has a place.
-- name: is_placed
EXISTS (SELECT 1 FROM sequenced s WHERE s.lane = b.lane AND s.batch = b.batch AND :is_place)

-- Whether a row s of sequenced covers no sequence of the log: without it, every entry keeps its place.
-- name: is_foreign_place
(s.entries = 0 OR s.first_sequence + s.entries - 1 > (SELECT size FROM heads)) AND (:is_place) IS NOT TRUE

-- name: foreign_places
SELECT s.lane, s.batch FROM sequenced s WHERE :is_foreign_place ORDER BY 1, 2

-- Run by COPY. Batches without a place after batch :batch of lane :lane.
-- name: unplaced_after
SELECT b.lane, b.batch, b.entries, b.candidates, b.leaves, b.repeats, b.seal,
  convert_to(b.committed_at::text, 'UTF8')
FROM batches b WHERE (b.lane, b.batch) > (:lane, :batch) AND NOT :is_placed ORDER BY b.lane, b.batch LIMIT :most

-- name: last_placed_batch
SELECT coalesce(max(b.batch), 0) FROM batches b WHERE b.lane = $1 AND :is_placed

-- name: is_open_lane
SELECT EXISTS (SELECT 1 FROM open_lanes WHERE lane = $1)

-- name: count_ids
SELECT count(*) FROM event_ids WHERE lane = $1 AND batch = $2

-- Batches that more ids name than they have entries, and batches that ids name and that do not exist.
-- name: crowded_batches
SELECT k.lane, k.batch, count(*), max(b.entries) FROM event_ids k LEFT JOIN batches b USING (lane, batch)
GROUP BY k.lane, k.batch HAVING count(*) > coalesce(max(b.entries), 0) ORDER BY 1, 2

-- name: ids_of_batch
SELECT k.event_id::text, k.organisation_id, k.ord, o.name FROM event_ids k
LEFT JOIN organisations o USING (organisation_id) WHERE k.lane = $1 AND k.batch = $2

-- name: envelopes_of_batch
SELECT ord, encode(envelope, 'hex') FROM events WHERE lane = $1 AND batch = $2

-- No batch gets a place until the transaction ends.
-- name: hold_head
SELECT size FROM heads FOR UPDATE

-- name: move_places
WITH gone AS (DELETE FROM sequenced AS s
  WHERE (lane, batch) IN (SELECT * FROM unnest($2::int[], $3::int[])) AND :is_foreign_place RETURNING s.*)
INSERT INTO quarantined_places SELECT $1::uuid, gone.* FROM gone

-- Batches are selected by their seals too, because another batch may have got the number since.
-- name: move_batches
WITH gone AS (DELETE FROM batches AS b
  WHERE (lane, batch, coalesce(seal, '')) IN (SELECT * FROM unnest($2::int[], $3::int[], $4::bytea[]))
    AND NOT :is_placed RETURNING b.*)
INSERT INTO quarantined_batches SELECT $1::uuid, gone.* FROM gone

-- name: move_events
WITH gone AS (DELETE FROM events AS e
  WHERE (lane, batch) IN (SELECT * FROM unnest($2::int[], $3::int[]))
    AND NOT EXISTS (SELECT 1 FROM batches b WHERE b.lane = e.lane AND b.batch = e.batch) RETURNING e.*)
INSERT INTO quarantined_events SELECT $1::uuid, gone.* FROM gone

-- name: move_ids_of_batches
WITH gone AS (DELETE FROM event_ids AS e
  WHERE (lane, batch) IN (SELECT * FROM unnest($2::int[], $3::int[])) RETURNING e.*)
INSERT INTO quarantined_ids SELECT $1::uuid, gone.* FROM gone

-- name: move_ids
WITH gone AS (DELETE FROM event_ids AS e
  WHERE (event_id, organisation_id, lane, batch)
    IN (SELECT * FROM unnest($2::uuid[], $3::int[], $4::int[], $5::int[])) RETURNING e.*)
INSERT INTO quarantined_ids SELECT $1::uuid, gone.* FROM gone

-- An empty batch replaces one that later batches of its lane follow: the sequencer finds these by counting.
-- name: fill_batches
INSERT INTO batches (lane, batch, candidates, entries, leaves)
SELECT lane, batch, 0, 0, '' FROM unnest($1::int[], $2::int[]) AS t (lane, batch)

-- name: reopen_lanes
INSERT INTO open_lanes SELECT unnest($1::int[]) ON CONFLICT DO NOTHING
