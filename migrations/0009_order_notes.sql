-- Notes on any payment, disputed or not, by the merchant's team and the operator.

-- [orders] What somebody noted about an order; never changed, and so many at most (core/notes.py).
create table order_notes (
    merchant_id text not null,
    order_id    text not null,
    number      integer not null check (number between 1 and 100),
    at          bigint not null,
    who         text not null,
    note        text not null check (length(note) between 1 and 5000),
    by_merchant boolean not null,  -- a member of the merchant wrote it, and not the operator
    primary key (merchant_id, order_id, number),
    foreign key (merchant_id, order_id) references orders (merchant_id, id)
);
create trigger order_notes_are_final before update or delete on order_notes
    for each row execute function refuse_change();

-- So many of a dispute too. Not looked at for those that are there, which may be more.
alter table dispute_notes
    add constraint dispute_notes_are_bounded check (number <= 100 and length(note) <= 5000) not valid;
