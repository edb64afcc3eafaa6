-- concurrently
-- [orders] What is old is found in the order of the key, whether its first row is there or not; the
-- version before looks through the whole table without this index, each minute. Where that takes it
-- more than 30 seconds, it deletes nothing until it is replaced.
drop index concurrently order_history_old;
