TABLE access_lines
  line bigint NOT NULL
  at timestamp with time zone NOT NULL DEFAULT clock_timestamp()
  text text NOT NULL
  written_by text DEFAULT SESSION_USER
  CONSTRAINT access_lines_line_check CHECK ((line > 0))
  CONSTRAINT access_lines_pkey PRIMARY KEY (line)
  CREATE UNIQUE INDEX access_lines_pkey ON log.access_lines USING btree (line)
  GRANT SELECT TO log_reader
  GRANT SELECT TO log_writer
TABLE actions
  number integer NOT NULL
  lane integer NOT NULL
  batch integer NOT NULL
  CONSTRAINT actions_lane_batch_key UNIQUE (lane, batch)
  CONSTRAINT actions_number_check CHECK ((number > 0))
  CONSTRAINT actions_pkey PRIMARY KEY (number)
  CREATE UNIQUE INDEX actions_lane_batch_key ON log.actions USING btree (lane, batch)
  CREATE UNIQUE INDEX actions_pkey ON log.actions USING btree (number)
  GRANT INSERT TO log_writer
  GRANT SELECT TO log_reader
  GRANT SELECT TO log_writer
TABLE api_keys
  created_order bigint NOT NULL IDENTITY
  key_id text COLLATE "C" NOT NULL
  hash bytea NOT NULL
  organisation text COLLATE "C" NOT NULL
  permissions text NOT NULL
  profile text
  rate_per_second double precision
  rate_burst integer
  client_certificate text
  note text NOT NULL
  created_at bigint NOT NULL
  expires_at bigint
  revoked_at bigint
  rotated_from text
  replaced_by text
  CONSTRAINT api_keys_check CHECK (((rate_per_second IS NULL) = (rate_burst IS NULL)))
  CONSTRAINT api_keys_hash_check CHECK ((length(hash) = 32))
  CONSTRAINT api_keys_hash_key UNIQUE (hash)
  CONSTRAINT api_keys_key_id_key UNIQUE (key_id)
  CONSTRAINT api_keys_pkey PRIMARY KEY (created_order)
  CONSTRAINT api_keys_replaced_by_fkey FOREIGN KEY (replaced_by) REFERENCES log.api_keys(key_id)
  CONSTRAINT api_keys_rotated_from_fkey FOREIGN KEY (rotated_from) REFERENCES log.api_keys(key_id)
  CREATE UNIQUE INDEX api_keys_hash_key ON log.api_keys USING btree (hash)
  CREATE UNIQUE INDEX api_keys_key_id_key ON log.api_keys USING btree (key_id)
  CREATE UNIQUE INDEX api_keys_pkey ON log.api_keys USING btree (created_order)
  GRANT INSERT TO log_keys
  GRANT INSERT TO log_writer
  GRANT SELECT TO log_keys
  GRANT SELECT TO log_writer
  GRANT UPDATE TO log_keys
TABLE batches PARTITION BY RANGE (lane)
  lane integer NOT NULL
  batch integer NOT NULL
  committed_at timestamp with time zone NOT NULL DEFAULT clock_timestamp()
  candidates smallint NOT NULL
  entries smallint NOT NULL
  own smallint NOT NULL DEFAULT 0
  bytes integer NOT NULL DEFAULT 0
  leaves bytea NOT NULL STORAGE EXTERNAL
  closes boolean NOT NULL DEFAULT false
  repeats bytea STORAGE EXTERNAL
  seal bytea
  CONSTRAINT batches_batch_check CHECK ((batch > 0))
  CONSTRAINT batches_check CHECK ((length(leaves) = (73 * entries)))
  CONSTRAINT batches_pkey PRIMARY KEY (lane, batch)
  CREATE UNIQUE INDEX batches_pkey ON ONLY log.batches USING btree (lane, batch)
  GRANT INSERT(batch)(bytes)(candidates)(closes)(entries)(lane)(leaves)(own)(repeats)(seal) TO log_writer
  GRANT SELECT TO log_reader
  GRANT SELECT TO log_writer
TABLE checkpoints
  size bigint NOT NULL
  note text NOT NULL
  kept_at timestamp with time zone NOT NULL DEFAULT clock_timestamp()
  CONSTRAINT checkpoints_pkey PRIMARY KEY (size)
  CREATE UNIQUE INDEX checkpoints_pkey ON log.checkpoints USING btree (size)
  GRANT INSERT TO log_writer
  GRANT SELECT TO log_reader
  GRANT SELECT TO log_writer
TABLE collectors WITH (fillfactor=50)
  collector_id uuid NOT NULL
  host text NOT NULL
  pid integer NOT NULL
  version text NOT NULL
  started_at timestamp with time zone NOT NULL DEFAULT clock_timestamp()
  seen_at timestamp with time zone NOT NULL DEFAULT clock_timestamp()
  CONSTRAINT collectors_pkey PRIMARY KEY (collector_id)
  CREATE UNIQUE INDEX collectors_pkey ON log.collectors USING btree (collector_id)
  GRANT INSERT(collector_id)(host)(pid)(version) TO log_writer
  GRANT SELECT TO log_reader
  GRANT SELECT TO log_writer
  GRANT UPDATE(seen_at) TO log_writer
TABLE encryption
  one boolean NOT NULL DEFAULT true
  keys text NOT NULL
  begun_at timestamp with time zone NOT NULL DEFAULT clock_timestamp()
  CONSTRAINT encryption_one_check CHECK (one)
  CONSTRAINT encryption_pkey PRIMARY KEY (one)
  CREATE UNIQUE INDEX encryption_pkey ON log.encryption USING btree (one)
  GRANT INSERT TO log_writer
  GRANT SELECT TO log_eraser
  GRANT SELECT TO log_reader
  GRANT SELECT TO log_writer
TABLE event_ids
  event_id uuid NOT NULL
  organisation_id integer NOT NULL
  lane integer NOT NULL
  batch integer NOT NULL
  ord smallint NOT NULL
  CONSTRAINT event_ids_pkey PRIMARY KEY (event_id, organisation_id)
  CREATE UNIQUE INDEX event_ids_pkey ON log.event_ids USING btree (event_id, organisation_id)
  GRANT INSERT TO log_writer
  GRANT SELECT TO log_reader
  GRANT SELECT TO log_writer
TABLE events PARTITION BY RANGE (lane)
  lane integer NOT NULL
  batch integer NOT NULL
  ord smallint NOT NULL
  payload_state smallint NOT NULL DEFAULT 0
  envelope bytea NOT NULL
  salted bytea
  CONSTRAINT events_pkey PRIMARY KEY (lane, batch, ord)
  CREATE UNIQUE INDEX events_pkey ON ONLY log.events USING btree (lane, batch, ord)
  GRANT INSERT TO log_writer
  GRANT SELECT TO log_reader
  GRANT SELECT TO log_writer
CREATE OR REPLACE FUNCTION log.append_access_line(entry text)
 RETURNS boolean
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'log', 'pg_temp'
AS $function$
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
END $function$

GRANT EXECUTE TO log_keys
GRANT EXECUTE TO log_reader
GRANT EXECUTE TO log_writer
CREATE OR REPLACE FUNCTION log.close_lanes(those integer[])
 RETURNS void
 LANGUAGE sql
 SECURITY DEFINER
 SET search_path TO 'log', 'pg_temp'
AS $function$
  DELETE FROM open_lanes o WHERE o.lane = ANY (those) AND EXISTS (
    SELECT 1 FROM batches b JOIN sequenced s USING (lane, batch) WHERE b.lane = o.lane AND b.closes)
$function$

GRANT EXECUTE TO log_writer
TABLE heads WITH (fillfactor=10)
  one boolean NOT NULL DEFAULT true
  size bigint NOT NULL
  own_entries bigint NOT NULL
  bytes bigint NOT NULL
  advanced_at timestamp with time zone NOT NULL DEFAULT clock_timestamp()
  access_lines bigint NOT NULL DEFAULT 0
  access_head text NOT NULL DEFAULT ''::text
  CONSTRAINT heads_one_check CHECK (one)
  CONSTRAINT heads_pkey PRIMARY KEY (one)
  CREATE UNIQUE INDEX heads_pkey ON log.heads USING btree (one)
  GRANT SELECT TO log_reader
  GRANT SELECT TO log_writer
  GRANT UPDATE TO log_writer
TABLE hold_records
  action uuid NOT NULL
  record text NOT NULL
  CONSTRAINT hold_records_pkey PRIMARY KEY (action)
  CREATE UNIQUE INDEX hold_records_pkey ON log.hold_records USING btree (action)
  GRANT DELETE TO log_writer
  GRANT INSERT TO log_eraser
  GRANT SELECT TO log_reader
  GRANT SELECT TO log_writer
TABLE key_changes
  one boolean NOT NULL DEFAULT true
  version bigint NOT NULL
  CONSTRAINT key_changes_one_check CHECK (one)
  CONSTRAINT key_changes_pkey PRIMARY KEY (one)
  CREATE UNIQUE INDEX key_changes_pkey ON log.key_changes USING btree (one)
  GRANT SELECT TO log_keys
  GRANT SELECT TO log_reader
  GRANT SELECT TO log_writer
  GRANT UPDATE TO log_keys
  GRANT UPDATE TO log_writer
TABLE lanes
  lane integer NOT NULL
  collector_id uuid NOT NULL
  opened_at timestamp with time zone NOT NULL DEFAULT clock_timestamp()
  CONSTRAINT lanes_collector_id_fkey FOREIGN KEY (collector_id) REFERENCES log.collectors(collector_id)
  CONSTRAINT lanes_pkey PRIMARY KEY (lane)
  CREATE UNIQUE INDEX lanes_pkey ON log.lanes USING btree (lane)
  GRANT INSERT(collector_id)(lane) TO log_writer
  GRANT SELECT TO log_reader
  GRANT SELECT TO log_writer
TABLE log
  one boolean NOT NULL DEFAULT true
  ledger_id text COLLATE "C" NOT NULL
  system_id bigint NOT NULL
  durability text COLLATE "C" NOT NULL
  created_at timestamp with time zone NOT NULL DEFAULT clock_timestamp()
  CONSTRAINT log_durability_check CHECK ((durability = ANY (ARRAY['replicated'::text, 'local'::text])))
  CONSTRAINT log_ledger_id_check CHECK ((length(ledger_id) = 32))
  CONSTRAINT log_one_check CHECK (one)
  CONSTRAINT log_pkey PRIMARY KEY (one)
  CREATE UNIQUE INDEX log_pkey ON log.log USING btree (one)
  GRANT SELECT TO log_eraser
  GRANT SELECT TO log_keys
  GRANT SELECT TO log_reader
  GRANT SELECT TO log_writer
TABLE log_keys
  place integer NOT NULL
  text text NOT NULL
  CONSTRAINT log_keys_pkey PRIMARY KEY (place)
  CONSTRAINT log_keys_place_check CHECK ((place >= 0))
  CREATE UNIQUE INDEX log_keys_pkey ON log.log_keys USING btree (place)
  GRANT INSERT TO log_writer
  GRANT SELECT TO log_reader
  GRANT SELECT TO log_writer
TABLE open_lanes
  lane integer NOT NULL
  CONSTRAINT open_lanes_pkey PRIMARY KEY (lane)
  CREATE UNIQUE INDEX open_lanes_pkey ON log.open_lanes USING btree (lane)
  GRANT INSERT TO log_writer
  GRANT SELECT TO log_reader
  GRANT SELECT TO log_writer
TABLE organisations
  organisation_id integer NOT NULL IDENTITY
  name text COLLATE "C" NOT NULL
  CONSTRAINT organisations_name_check CHECK ((length(name) <= 64))
  CONSTRAINT organisations_name_key UNIQUE (name)
  CONSTRAINT organisations_pkey PRIMARY KEY (organisation_id)
  CREATE UNIQUE INDEX organisations_name_key ON log.organisations USING btree (name)
  CREATE UNIQUE INDEX organisations_pkey ON log.organisations USING btree (organisation_id)
  GRANT INSERT TO log_writer
  GRANT SELECT TO log_reader
  GRANT SELECT TO log_writer
TABLE periods WITH (fillfactor=50)
  period integer NOT NULL
  from_lane integer NOT NULL
  to_lane integer NOT NULL
  next_lane integer NOT NULL
  begins date NOT NULL
  CONSTRAINT periods_check CHECK (((next_lane >= from_lane) AND (next_lane <= (to_lane + 1))))
  CONSTRAINT periods_from_lane_key UNIQUE (from_lane)
  CONSTRAINT periods_pkey PRIMARY KEY (period)
  CREATE UNIQUE INDEX periods_from_lane_key ON log.periods USING btree (from_lane)
  CREATE UNIQUE INDEX periods_pkey ON log.periods USING btree (period)
  GRANT SELECT TO log_reader
  GRANT SELECT TO log_writer
  GRANT UPDATE(next_lane) TO log_writer
TABLE published WITH (fillfactor=10)
  one boolean NOT NULL DEFAULT true
  note text NOT NULL
  signed_at timestamp with time zone NOT NULL DEFAULT clock_timestamp()
  CONSTRAINT published_one_check CHECK (one)
  CONSTRAINT published_pkey PRIMARY KEY (one)
  CREATE UNIQUE INDEX published_pkey ON log.published USING btree (one)
  GRANT INSERT TO log_writer
  GRANT SELECT TO log_reader
  GRANT SELECT TO log_writer
  GRANT UPDATE TO log_writer
TABLE quarantined_batches
  action uuid NOT NULL
  lane integer NOT NULL
  batch integer NOT NULL
  committed_at timestamp with time zone NOT NULL
  candidates smallint NOT NULL
  entries smallint NOT NULL
  own smallint NOT NULL
  bytes integer NOT NULL
  leaves bytea NOT NULL
  closes boolean NOT NULL
  repeats bytea
  seal bytea
  CONSTRAINT quarantined_batches_pkey PRIMARY KEY (action, lane, batch)
  CREATE UNIQUE INDEX quarantined_batches_pkey ON log.quarantined_batches USING btree (action, lane, batch)
  GRANT SELECT TO log_reader
  GRANT SELECT TO log_writer
TABLE quarantined_events
  action uuid NOT NULL
  lane integer NOT NULL
  batch integer NOT NULL
  ord smallint NOT NULL
  payload_state smallint NOT NULL
  envelope bytea NOT NULL
  salted bytea
  CONSTRAINT quarantined_events_pkey PRIMARY KEY (action, lane, batch, ord)
  CREATE UNIQUE INDEX quarantined_events_pkey ON log.quarantined_events USING btree (action, lane, batch, ord)
  GRANT SELECT TO log_reader
  GRANT SELECT TO log_writer
TABLE quarantined_ids
  action uuid NOT NULL
  event_id uuid NOT NULL
  organisation_id integer NOT NULL
  lane integer NOT NULL
  batch integer NOT NULL
  ord smallint NOT NULL
  CONSTRAINT quarantined_ids_pkey PRIMARY KEY (action, event_id, organisation_id)
  CREATE UNIQUE INDEX quarantined_ids_pkey ON log.quarantined_ids USING btree (action, event_id, organisation_id)
  GRANT SELECT TO log_reader
  GRANT SELECT TO log_writer
TABLE quarantined_places
  action uuid NOT NULL
  lane integer NOT NULL
  batch integer NOT NULL
  first_sequence bigint NOT NULL
  entries smallint NOT NULL
  CONSTRAINT quarantined_places_pkey PRIMARY KEY (action, lane, batch)
  CREATE UNIQUE INDEX quarantined_places_pkey ON log.quarantined_places USING btree (action, lane, batch)
  GRANT SELECT TO log_reader
  GRANT SELECT TO log_writer
TABLE requests
  action uuid NOT NULL
  request text
  asked_at timestamp with time zone NOT NULL DEFAULT clock_timestamp()
  answer text
  answered_at timestamp with time zone
  begun_at timestamp with time zone
  CONSTRAINT requests_pkey PRIMARY KEY (action)
  CREATE UNIQUE INDEX requests_pkey ON log.requests USING btree (action)
  GRANT DELETE TO log_eraser
  GRANT DELETE TO log_writer
  GRANT INSERT TO log_eraser
  GRANT INSERT TO log_writer
  GRANT SELECT TO log_reader
  GRANT SELECT TO log_writer
  GRANT SELECT(action)(answer)(begun_at) TO log_eraser
  GRANT UPDATE(answer)(answered_at)(begun_at)(request) TO log_writer
TABLE schema_migrations
  id integer NOT NULL
  name text NOT NULL
  sha256 text NOT NULL
  older_may_run boolean NOT NULL DEFAULT true
  applied_at timestamp with time zone NOT NULL DEFAULT clock_timestamp()
  CONSTRAINT schema_migrations_pkey PRIMARY KEY (id)
  CREATE UNIQUE INDEX schema_migrations_pkey ON log.schema_migrations USING btree (id)
  GRANT SELECT TO log_eraser
  GRANT SELECT TO log_keys
  GRANT SELECT TO log_reader
  GRANT SELECT TO log_writer
TABLE seal_key
  one boolean NOT NULL DEFAULT true
  key_id text COLLATE "C" NOT NULL
  CONSTRAINT seal_key_one_check CHECK (one)
  CONSTRAINT seal_key_pkey PRIMARY KEY (one)
  CREATE UNIQUE INDEX seal_key_pkey ON log.seal_key USING btree (one)
  GRANT INSERT TO log_writer
  GRANT SELECT TO log_reader
  GRANT SELECT TO log_writer
TABLE sequenced
  lane integer NOT NULL
  batch integer NOT NULL
  first_sequence bigint NOT NULL
  entries smallint NOT NULL
  CONSTRAINT sequenced_pkey PRIMARY KEY (lane, batch)
  CREATE UNIQUE INDEX sequenced_first ON log.sequenced USING btree (first_sequence) WHERE (entries > 0)
  CREATE UNIQUE INDEX sequenced_pkey ON log.sequenced USING btree (lane, batch)
  GRANT INSERT TO log_writer
  GRANT SELECT TO log_reader
  GRANT SELECT TO log_writer
TABLE tiles
  level smallint NOT NULL
  tile bigint NOT NULL
  hashes bytea NOT NULL STORAGE EXTERNAL
  CONSTRAINT tiles_hashes_check CHECK (((length(hashes) >= 32) AND (length(hashes) <= 8192)))
  CONSTRAINT tiles_pkey PRIMARY KEY (level, tile)
  CREATE UNIQUE INDEX tiles_pkey ON log.tiles USING btree (level, tile)
  GRANT INSERT TO log_writer
  GRANT SELECT TO log_reader
  GRANT SELECT TO log_writer
  GRANT UPDATE TO log_writer
