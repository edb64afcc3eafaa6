-- concurrently
-- The movements of the prepaid balance, newest first, and their numbers. Entries of other accounts are not
-- in the index, so that they write nothing there.
create index concurrently entries_newest_of_prepaid on entries
    (merchant_id, created_at desc, id desc)
    where from_account = 'prepaid' or to_account = 'prepaid';
