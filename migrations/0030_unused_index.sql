-- concurrently
-- [orders] What is old is found in the order of the key, whether its first row is there or not; the
-- version before finds it without this index as well, more slowly.
drop index concurrently order_history_old;
