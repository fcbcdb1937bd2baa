-- The login role of the collector in deploy/compose.postgres.yaml. It cannot change or delete an event.
\set ON_ERROR_STOP on
\set password `cat /run/secrets/collector-password`
SELECT 'CREATE ROLE collector LOGIN' WHERE to_regrole('collector') IS NULL
\gexec
ALTER ROLE collector PASSWORD :'password';
GRANT collector_writer, collector_keys TO collector;
-- For collector store check, which looks for standbys.
GRANT pg_read_all_stats TO collector;
-- Parameters of statements contain patient data, which must not reach the server's log.
ALTER ROLE collector SET log_parameter_max_length = 0;
ALTER ROLE collector SET log_parameter_max_length_on_error = 0;
