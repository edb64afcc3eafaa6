-- Logins that nobody has looked at yet, so that one that has ended meanwhile is mailed about too.

-- [people] A login that was begun, until its mail is written or it is too old for one; it may have
-- ended since.
create table begun_logins (
    id         text primary key,
    person_id  text not null references persons (id),
    address    text not null,
    device     text not null,
    created_at bigint not null
);
create index begun_logins_by_time on begun_logins (created_at);
insert into begun_logins (id, person_id, address, device, created_at)
select id, person_id, address, device, created_at from logins
where created_at > (select max(created_at) from logins) - 3600000;
