-- Statements on the log as a whole: its head, its entries in order, its public keys and its access log.

-- name: log_row
SELECT ledger_id, log.system_id::text, durability, control.system_identifier::text, (SELECT keys FROM encryption)
FROM log, pg_control_system() AS control

-- name: head
SELECT size, own_entries, bytes, access_lines, access_head FROM heads

-- Run by COPY. Batches that have a place, from the one that holds sequence :from; no row if the log ends before it.
-- name: spans
SELECT s.first_sequence, s.lane, s.batch, s.entries, b.bytes, b.candidates, b.leaves, b.repeats, b.seal
FROM (SELECT * FROM sequenced WHERE entries > 0 AND first_sequence <= :last AND first_sequence >= coalesce(
    (SELECT max(first_sequence) FROM sequenced WHERE entries > 0 AND first_sequence <= :from), 1)
    AND first_sequence + entries > :from
  ORDER BY first_sequence LIMIT :most) s
CROSS JOIN LATERAL (SELECT * FROM batches WHERE lane = s.lane AND batch = s.batch OFFSET 0) b
ORDER BY s.first_sequence

-- Run by COPY. Rows of the given batches, in order: whole payloads, or their first :bytes bytes.
-- name: rows
SELECT s.n, e.ord, e.payload_state, e.envelope, substring(e.salted FROM 1 FOR :bytes)
FROM unnest(:lanes::int[], :batches::int[]) WITH ORDINALITY AS s (lane, batch, n)
CROSS JOIN LATERAL (SELECT * FROM events WHERE lane = s.lane AND batch = s.batch OFFSET 0) e ORDER BY s.n, e.ord

-- Sequences of the events with an id, of one organisation or of all.
-- name: sequences_of_id
SELECT s.first_sequence + (SELECT count(*) FROM events e
    WHERE e.lane = k.lane AND e.batch = k.batch AND e.ord < k.ord) AS sequence
FROM (SELECT * FROM event_ids WHERE event_id = $1::uuid OFFSET 0) k
CROSS JOIN LATERAL (SELECT * FROM sequenced WHERE lane = k.lane AND batch = k.batch OFFSET 0) s
JOIN organisations o USING (organisation_id)
WHERE ($2::text IS NULL OR o.name = $2) ORDER BY 1

-- Run by COPY. One event of each of the newest batches, newest first; the log's own entries are never encrypted.
-- 60 is the size of the header of an encrypted row (encrypted-row.ts).
-- name: newest_rows
SELECT e.payload_state, e.envelope, substring(e.salted FROM 1 FOR 60)
FROM (SELECT s.* FROM sequenced s
  CROSS JOIN LATERAL (SELECT own FROM batches WHERE lane = s.lane AND batch = s.batch OFFSET 0) b
  WHERE s.entries > 0 AND b.own = 0 ORDER BY s.first_sequence DESC LIMIT 64) s
CROSS JOIN LATERAL (SELECT * FROM events WHERE lane = s.lane AND batch = s.batch ORDER BY ord DESC LIMIT 1) e
ORDER BY s.first_sequence DESC

-- name: begin_encryption
INSERT INTO encryption (keys) VALUES ($1) ON CONFLICT DO NOTHING

-- A head with fewer lines than the newest one in the log must not follow it.
-- name: advance_access_head
UPDATE heads SET access_lines = $1, access_head = $2 WHERE access_lines < $1

-- name: log_keys
SELECT text FROM log_keys ORDER BY place

-- name: may_add_log_key
SELECT has_table_privilege('log_keys', 'INSERT')

-- name: add_log_key
INSERT INTO log_keys (place, text) VALUES ($1, $2) ON CONFLICT DO NOTHING

-- name: set_seal_key
INSERT INTO seal_key (key_id) VALUES ($1) ON CONFLICT DO NOTHING

-- name: seal_key
SELECT key_id FROM seal_key

-- name: append_access_line
SELECT append_access_line($1)

-- name: access_lines
SELECT line, text FROM access_lines WHERE line > $1 ORDER BY line LIMIT 1000

-- The role that wrote line $1. A row that append_access_line() did not write may hold several lines.
-- name: writer_of_line
SELECT written_by FROM (
  SELECT written_by, sum(1 + length(text) - length(replace(text, chr(10), ''))) OVER (ORDER BY line) AS last
  FROM access_lines) l WHERE last >= $1 ORDER BY last LIMIT 1
