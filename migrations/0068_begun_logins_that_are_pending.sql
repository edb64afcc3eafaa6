-- [people] Whether a login that began still lacks the second factor of its person. The login itself
-- may have ended before its mail is written, and the mail says which of the two it was.
alter table begun_logins add column pending boolean not null default false;
