-- What an API key may do, and who made it.

alter table api_keys
    add column scopes text[],   -- null: everything that the merchant may do
    add column made_by text,    -- the person; null: a command, or nobody knows any more
    add constraint api_keys_scopes_are_resource_and_verb check (
        scopes is null or array_to_string(scopes, ' ', '?')
            ~ '^[a-z]+(-[a-z]+)*:[a-z]+( [a-z]+(-[a-z]+)*:[a-z]+){0,63}$');
