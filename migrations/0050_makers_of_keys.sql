-- The audit log may be long: it is read in a migration of its own, without the lock of 0047 on the
-- keys, which every request of the API reads.

-- Keys that were made by a person say so in the audit log. One row at a time: on a cluster the two
-- tables are in different places.
do $$
declare
    creation record;
begin
    for creation in
        select substring(who from '\((per_[0-9a-z]+)\)$') as person_id, case action
            when 'keys create' then split_part(subject, ' ', 1)
            else substring(subject from ' becomes (key_[0-9a-z]+)') end as key_id
        from audit_log
        where action in ('keys create', 'keys regenerate') and who like '%(per\_%)'
    loop
        update api_keys set made_by = creation.person_id where id = creation.key_id;
    end loop;
end
$$;
