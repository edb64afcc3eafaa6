-- Test payments of gateways, so that their list is a table and no search of the audit log (decision 0100).

-- [checkouts] A session that staff opened to see that a gateway works.
create table gateway_tests (
    merchant_id text not null,
    order_id    text not null,
    gateway     text not null,
    who         text not null,
    created_at  bigint not null,
    primary key (merchant_id, order_id)
);
create index gateway_tests_newest on gateway_tests (order_id desc);
insert into gateway_tests (merchant_id, order_id, gateway, who, created_at)
select merchant_id, split_part(subject, ': ', 1), split_part(subject, ': ', 2), who, at
from audit_log where action = 'gateways test'
on conflict do nothing;
