-- Whether an account is its person's alone: it was made, or set anew, by a link that only their
-- mailbox has seen. Staff are: who may invite staff may reset their accounts, too.
alter table persons add column confirmed boolean not null default false;
update persons p set confirmed = true where exists (select from staff s where s.person_id = p.id);
-- Who saw a link, beside whoever it is for: nobody where it was mailed.
alter table person_links add column shown_to text not null default 'member'
    check (shown_to in ('nobody', 'operator', 'member'));
