-- What the check of the books found, kept so that the console shows the rows that disagree (0100).

-- [ledger] The first violations of this pass and of the last one that was finished, as JSON; and when
-- that one was finished (real time).
alter table ledger_checks
    add column found_rows text not null default '[]',
    add column violation_rows text not null default '[]',
    add column finished_at bigint;
