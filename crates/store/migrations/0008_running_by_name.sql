-- The account's list of what runs, by name: as long as what runs, however much there is.
DROP INDEX sandboxes_running;
CREATE INDEX sandboxes_running ON sandboxes (state, name) WHERE state = 'running';
