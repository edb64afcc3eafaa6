-- The home page of the operator's staff: what needs somebody is found without reading through tables.
-- The indexes by which it is found are built by 0024.

-- [figures] What came in through a gateway by a method, of all merchants together, in the quarter
-- hour that begins at since: counted with the figures of merchants, and counted anew by the worker
-- where it does not add up to them, as after an upgrade (decision 0078).
create table gateway_figures (
    since        bigint not null check (since % 900000 = 0),
    gateway      text not null,  -- '': an operator confirmed the payment without an attempt
    method       text not null,
    currency     text not null,
    payments     bigint not null,
    volume_minor bigint not null,  -- as customers paid it
    failed       bigint not null,  -- attempts
    primary key (since, gateway, method, currency)
);
