-- Any language that has a catalogue may be stored (0146): its BCP 47 tag. The version before stores
-- three languages, and cannot read a mail or a session of another one.

-- [mail] Of the customer's page, or of the reader's own choice.
alter table mails
    drop constraint mails_language_check,
    add constraint mails_language_check
        check (language ~ '^[a-z]{2,3}(-[A-Za-z0-9]{2,8})*$') not valid;
alter table mail_preferences
    drop constraint mail_preferences_language_check,
    add constraint mail_preferences_language_check
        check (language ~ '^[a-z]{2,3}(-[A-Za-z0-9]{2,8})*$') not valid;

-- [people]
alter table persons
    drop constraint persons_language_check,
    add constraint persons_language_check
        check (language ~ '^[a-z]{2,3}(-[A-Za-z0-9]{2,8})*$') not valid;
