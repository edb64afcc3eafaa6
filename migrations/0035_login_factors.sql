-- A login that was begun by a link: an invitation or a new password. Only such a login may set up
-- the first second factor of somebody who must have one.
alter table logins add column by_link boolean not null default false;
