-- The tables of a log. `collector store migrate` runs this file once, in the schema that the address names (:schema).
--
-- The path of an event updates and deletes no row: no hot row, no queue, no dead tuples, and the collector's role has
-- no right to change an event. Text is compared by its bytes: other collations, and their indexes, change with the
-- host's C library.

CREATE TABLE log (
  one boolean PRIMARY KEY DEFAULT true CHECK (one),
  ledger_id text COLLATE "C" NOT NULL CHECK (length(ledger_id) = 32),
  -- pg_control_system(): distinguishes a database that was restored elsewhere from the original.
  system_id bigint NOT NULL,
  durability text COLLATE "C" NOT NULL CHECK (durability IN ('replicated', 'local')),
  created_at timestamptz NOT NULL DEFAULT clock_timestamp());

CREATE TABLE organisations (
  organisation_id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  name text COLLATE "C" NOT NULL UNIQUE CHECK (length(name) <= 64));

-- One row for each process. seen_at informs people, and closes the lanes of a collector that is gone.
CREATE TABLE collectors (
  collector_id uuid PRIMARY KEY, host text NOT NULL, pid int NOT NULL, version text NOT NULL,
  started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  seen_at timestamptz NOT NULL DEFAULT clock_timestamp()) WITH (fillfactor = 50);

-- A range of lanes for each month: the tables of events are partitioned by lane.
CREATE TABLE periods (
  period int PRIMARY KEY, from_lane int NOT NULL UNIQUE, to_lane int NOT NULL, next_lane int NOT NULL,
  begins date NOT NULL, CHECK (next_lane BETWEEN from_lane AND to_lane + 1)) WITH (fillfactor = 50);

-- A lane has one writer for its whole life, which numbers its batches 1, 2, 3 … and has one batch in flight.
CREATE TABLE lanes (
  lane int PRIMARY KEY, collector_id uuid NOT NULL REFERENCES collectors,
  opened_at timestamptz NOT NULL DEFAULT clock_timestamp());
-- Lanes whose closing batch has no place yet: the sequencer reads only these, however many lanes exist.
CREATE TABLE open_lanes (lane int PRIMARY KEY);

CREATE TABLE batches (
  lane int NOT NULL, batch int NOT NULL CHECK (batch > 0),
  committed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  candidates smallint NOT NULL, entries smallint NOT NULL,
  -- own: entries that the log itself wrote; bytes: envelopes and payloads of all entries.
  own smallint NOT NULL DEFAULT 0, bytes int NOT NULL DEFAULT 0,
  -- 73 bytes for each accepted entry, in order: all that the tree needs, kept permanently.
  leaves bytea NOT NULL, closes boolean NOT NULL DEFAULT false,
  -- Candidates that were stored before: int16 position in the batch, 73 bytes each. The seal covers these and leaves.
  repeats bytea, seal bytea,
  PRIMARY KEY (lane, batch), CHECK (length(leaves) = 73 * entries)) PARTITION BY RANGE (lane);
ALTER TABLE batches ALTER leaves SET STORAGE EXTERNAL;
ALTER TABLE batches ALTER repeats SET STORAGE EXTERNAL;

-- The ids of all stored events, kept permanently. Narrow and not partitioned: ids are unique over all time.
CREATE TABLE event_ids (
  event_id uuid NOT NULL, organisation_id int NOT NULL,
  lane int NOT NULL, batch int NOT NULL, ord smallint NOT NULL,
  PRIMARY KEY (event_id, organisation_id));

-- salted: 16 random bytes and the body as it was sent; NULL after erasure.
CREATE TABLE events (
  lane int NOT NULL, batch int NOT NULL, ord smallint NOT NULL,
  payload_state smallint NOT NULL DEFAULT 0, envelope bytea NOT NULL, salted bytea,
  PRIMARY KEY (lane, batch, ord)) PARTITION BY RANGE (lane);

-- One row. The process that holds its lock assigns the next sequences.
CREATE TABLE heads (
  one boolean PRIMARY KEY DEFAULT true CHECK (one), size bigint NOT NULL, own_entries bigint NOT NULL,
  bytes bigint NOT NULL, advanced_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  -- The newest head of access_lines that the log holds.
  access_lines bigint NOT NULL DEFAULT 0, access_head text NOT NULL DEFAULT '') WITH (fillfactor = 10);

CREATE TABLE sequenced (
  lane int, batch int, first_sequence bigint NOT NULL, entries smallint NOT NULL, PRIMARY KEY (lane, batch));
CREATE UNIQUE INDEX sequenced_first ON sequenced (first_sequence) WHERE entries > 0;

CREATE TABLE tiles (
  level smallint, tile bigint, hashes bytea NOT NULL CHECK (length(hashes) BETWEEN 32 AND 8192),
  PRIMARY KEY (level, tile));
ALTER TABLE tiles ALTER hashes SET STORAGE EXTERNAL;

CREATE TABLE published (
  one boolean PRIMARY KEY DEFAULT true CHECK (one), note text NOT NULL,
  signed_at timestamptz NOT NULL DEFAULT clock_timestamp()) WITH (fillfactor = 10);
CREATE TABLE checkpoints (
  size bigint PRIMARY KEY, note text NOT NULL, kept_at timestamptz NOT NULL DEFAULT clock_timestamp());

-- The public keys of the log: the first key, then each rotation note.
CREATE TABLE log_keys (place int PRIMARY KEY CHECK (place >= 0), text text NOT NULL);
-- The hash of the secret key with which the collectors seal their batches.
CREATE TABLE seal_key (one boolean PRIMARY KEY DEFAULT true CHECK (one), key_id text COLLATE "C" NOT NULL);

-- written_by: the database role that wrote the line.
CREATE TABLE access_lines (
  line bigint PRIMARY KEY CHECK (line > 0), at timestamptz NOT NULL DEFAULT clock_timestamp(), text text NOT NULL,
  written_by text DEFAULT session_user);

CREATE TABLE api_keys (
  created_order bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  key_id text COLLATE "C" NOT NULL UNIQUE, hash bytea NOT NULL UNIQUE CHECK (length(hash) = 32),
  organisation text COLLATE "C" NOT NULL, permissions text NOT NULL, profile text, rate_per_second float8,
  rate_burst int, client_certificate text, note text NOT NULL, created_at bigint NOT NULL, expires_at bigint,
  revoked_at bigint, rotated_from text REFERENCES api_keys (key_id), replaced_by text REFERENCES api_keys (key_id),
  CHECK ((rate_per_second IS NULL) = (rate_burst IS NULL)));
CREATE TABLE key_changes (one boolean PRIMARY KEY DEFAULT true CHECK (one), version bigint NOT NULL);

-- Has a row if payloads are encrypted: the address of the key database, as one collector names it.
CREATE TABLE encryption (
  one boolean PRIMARY KEY DEFAULT true CHECK (one), keys text NOT NULL,
  begun_at timestamptz NOT NULL DEFAULT clock_timestamp());

-- The entries that are actions, each in a batch of its own. A collector that adds one knows all earlier actions.
CREATE TABLE actions (
  number int PRIMARY KEY CHECK (number > 0), lane int NOT NULL, batch int NOT NULL, UNIQUE (lane, batch));
-- What commands ask the collectors to do to stored events. request: NULL once it was taken; begun_at: until a
-- collector sets it, the command can withdraw its request.
CREATE TABLE requests (
  action uuid PRIMARY KEY, request text, asked_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  answer text, answered_at timestamptz, begun_at timestamptz);
-- The events of each legal hold, subjects encrypted: the log has the SHA-256 of each record.
CREATE TABLE hold_records (action uuid PRIMARY KEY, record text NOT NULL);

-- What `collector store quarantine` has moved, by the action that reports it in the log.
CREATE TABLE quarantined_batches (
  action uuid NOT NULL, LIKE batches, PRIMARY KEY (action, lane, batch));
CREATE TABLE quarantined_ids (
  action uuid NOT NULL, LIKE event_ids, PRIMARY KEY (action, event_id, organisation_id));
CREATE TABLE quarantined_events (
  action uuid NOT NULL, LIKE events, PRIMARY KEY (action, lane, batch, ord));
CREATE TABLE quarantined_places (action uuid NOT NULL, LIKE sequenced, PRIMARY KEY (action, lane, batch));

-- Roles add lines to the access log only through this function. Returns false if the line does not have the form
-- that docs/INTEGRITY.md describes in "The access log".
CREATE FUNCTION append_access_line(entry text) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER
SET search_path = :schema, pg_temp AS $$
DECLARE
  said jsonb;
  actor jsonb;
  fits boolean;
BEGIN
  IF octet_length(entry) > 65536 OR left(entry, 7) <> '{"at":"' OR right(entry, 1) <> '}'
    OR strpos(entry, chr(10)) > 0 THEN RETURN false; END IF;
  BEGIN
    said := entry::jsonb;
    actor := said->'actor';
    fits := said - ARRAY['at', 'reading', 'state', 'actor', 'reason', 'break_glass', 'uid', 'user', 'login_uid',
        'sudo_user', 'command', 'filter', 'events', 'complete', 'done'] = '{}'
      AND to_char((said->>'at')::timestamptz AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') = said->>'at'
      AND jsonb_typeof(said->'reading') = 'string' AND jsonb_typeof(said->'command') = 'string'
      AND jsonb_typeof(said->'user') IN ('string', 'null')
      AND (actor->>'kind' IN ('os', 'oidc', 'proxy') AND jsonb_typeof(actor->'name') = 'string'
        AND coalesce(jsonb_typeof(actor->'role'), 'string') = 'string'
        AND coalesce(jsonb_typeof(actor->'stated'), 'string') = 'string'
        AND coalesce(jsonb_typeof(actor->'proven'), 'boolean') = 'boolean')
      AND coalesce(jsonb_typeof(said->'reason'), 'string') = 'string'
      AND coalesce(jsonb_typeof(said->'break_glass'), 'boolean') = 'boolean'
      AND coalesce(jsonb_typeof(said->'sudo_user'), 'string') = 'string'
      AND (SELECT count(*) FROM unnest(ARRAY['uid', 'login_uid', 'events']) AS n WHERE NOT CASE
        WHEN said ? n THEN jsonb_typeof(said->n) = 'number' AND (said->>n)::bigint BETWEEN -1 AND 9007199254740991
        ELSE n = 'login_uid' OR (n = 'events' AND said->>'state' = 'begun') END) = 0
      AND CASE said->>'state'
        WHEN 'begun' THEN jsonb_typeof(said->'filter') = 'object' AND NOT said ?| ARRAY['events', 'complete', 'done']
        WHEN 'ended' THEN jsonb_typeof(said->'complete') = 'boolean'
          AND coalesce(jsonb_typeof(said->'done'), 'object') = 'object' AND NOT said ? 'filter' END;
  EXCEPTION WHEN OTHERS THEN RETURN false;
  END;
  IF fits IS NOT TRUE THEN RETURN false; END IF;
  INSERT INTO access_lines (line, text) SELECT coalesce(max(line), 0) + 1,
    left(entry, -1) || ',"database_user":' || to_json(session_user::text) || '}' FROM access_lines;
  RETURN true;
END $$;
REVOKE ALL ON FUNCTION append_access_line(text) FROM PUBLIC;

-- Collectors remove lanes from open_lanes only through this function: it removes a lane whose closing batch has a place.
CREATE FUNCTION close_lanes(those int[]) RETURNS void LANGUAGE sql SECURITY DEFINER
SET search_path = :schema, pg_temp AS $$
  DELETE FROM open_lanes o WHERE o.lane = ANY (those) AND EXISTS (
    SELECT 1 FROM batches b JOIN sequenced s USING (lane, batch) WHERE b.lane = o.lane AND b.closes)
$$;
REVOKE ALL ON FUNCTION close_lanes(int[]) FROM PUBLIC;

INSERT INTO heads (size, own_entries, bytes) VALUES (0, 0, 0);
INSERT INTO key_changes (version) VALUES (1);
