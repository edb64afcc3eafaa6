-- A key that was replaced may work for some hours beside the new one: `expires_at` is then its end.

alter table api_keys
    add column replaced_by text;  -- the key that replaced it
