-- +goose Up
-- When each of the janitor's tasks is due again. Whoever does one holds its row locked meanwhile, so each is done by one
-- process at a time.
CREATE TABLE janitor_task (
    task   text        PRIMARY KEY,
    due_at timestamptz NOT NULL
);
ALTER TABLE janitor_task OWNER TO offerlog_owner;
GRANT SELECT, INSERT, UPDATE ON janitor_task TO offerlog_janitor;
GRANT SELECT ON janitor_task TO offerlog_inspector;

-- The journal grows by a row for each lane and batch: what lies behind is put together.
GRANT SELECT, UPDATE, DELETE ON commit_journal TO offerlog_janitor;
