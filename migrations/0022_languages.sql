-- The language in which somebody reads what is written to them alone (0102). A null column costs no
-- rewrite, and the version before leaves it as it is. Persons are few, so the check reads them all.

-- [people] null: nobody has said; English, or what their merchant's members read.
alter table persons
    add column language text check (language in ('en', 'zh-Hans', 'zh-Hant'));
