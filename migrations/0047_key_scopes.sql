-- What an API key may do, and who made it.

alter table api_keys
    add column scopes text[],   -- null: everything that the merchant may do
    add column made_by text,    -- the person; null: a command, or nobody knows any more
    add constraint api_keys_scopes_are_resource_and_verb check (
        scopes is null or array_to_string(scopes, ' ', '?')
            ~ '^[a-z]+(-[a-z]+)*:[a-z]+( [a-z]+(-[a-z]+)*:[a-z]+){0,63}$');

-- Keys that were made by a person say so in the audit log. One row at a time: on a cluster the two
-- tables are in different places.
do $$
declare
    made record;
begin
    for made in
        select substring(who from '\((per_[0-9a-z]+)\)$') as person_id, case action
            when 'keys create' then split_part(subject, ' ', 1)
            else substring(subject from ' becomes (key_[0-9a-z]+)') end as key_id
        from audit_log
        where action in ('keys create', 'keys regenerate') and who like '%(per\_%)'
    loop
        update api_keys set made_by = made.person_id where id = made.key_id;
    end loop;
end
$$;
