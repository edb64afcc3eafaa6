-- concurrently
-- The attempts through accounts in the database that succeeded or failed, by when they did: success
-- rates and breakers read the newest. Attempts through other gateways are left out.
create index concurrently payment_attempts_ended on payment_attempts (updated_at)
    where status in ('SUCCEEDED', 'DECLINED', 'REFUSED')
        and (gateway like 'ga\_%' or gateway like 'gat\_%');
