-- concurrently
-- Disputes that were opened or decided in a range of time, of all merchants and of one. The latter has
-- an index of those that were opened.
create index concurrently disputes_opened on disputes (created_at);
create index concurrently disputes_decided on disputes (closed_at) where closed_at is not null;
create index concurrently disputes_decided_of_merchant on disputes (merchant_id, closed_at)
    where closed_at is not null;
