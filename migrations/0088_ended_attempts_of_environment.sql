-- concurrently
-- The attempts through accounts of the environment that succeeded or failed, by when they did:
-- success rates and breakers read the newest.
create index concurrently payment_attempts_ended_of_environment on payment_attempts (updated_at)
    where status in ('SUCCEEDED', 'DECLINED', 'REFUSED')
        and gateway not like 'ga\_%' and gateway not like 'gat\_%';
