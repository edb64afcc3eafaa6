-- [gateways] Which accounts take which payments, before the order by priorities. The first matching
-- rule by position decides. Empty lists and nulls match every payment.
create table routing_rules (
    id                  text primary key check (id ~ '^rr_[0-9a-z]{26}$'),
    position            integer not null check (position > 0),
    methods             text[] not null,
    currencies          text[] not null,
    smallest_minor      bigint check (smallest_minor > 0),
    largest_minor       bigint check (largest_minor > 0),
    merchant_id         text references merchants (id),
    device              text check (device in ('desktop', 'phone')),
    ranking             text not null check
        (ranking in ('ACCOUNTS', 'PRIORITY', 'WEIGHT', 'COST', 'SUCCESS_RATE')),
    accounts            text[] not null,   -- in their order, for ACCOUNTS only
    exploration_percent integer check (exploration_percent between 0 and 50),
    is_only             boolean not null,  -- whether no account that the rule does not name follows
    created_at          bigint not null,
    constraint routing_rules_by_position unique (position) deferrable initially deferred,
    constraint routing_rules_amounts_have_currency check
        (num_nonnulls(smallest_minor, largest_minor) = 0 or cardinality(currencies) = 1),
    constraint routing_rules_amounts_are_ordered check (smallest_minor <= largest_minor),
    constraint routing_rules_name_accounts check
        ((ranking = 'ACCOUNTS') = (cardinality(accounts) > 0)),
    constraint routing_rules_only_with_accounts check (ranking = 'ACCOUNTS' or not is_only),
    constraint routing_rules_explore_success_rates check
        ((ranking = 'SUCCESS_RATE') = (exploration_percent is not null))
);

-- [gateways] One row: every change of the rules adds 1. Processes poll it, and changes lock it.
create table routing_rule_head (
    only_row boolean primary key default true check (only_row),
    revision bigint not null
);
insert into routing_rule_head (revision) values (0);
