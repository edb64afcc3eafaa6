-- concurrently
-- The list of disputes of all merchants is read by status, newest first; it is built while others write.
create index concurrently disputes_of_all on disputes (status, created_at desc, id desc);
