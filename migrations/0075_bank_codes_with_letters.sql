-- Indian bank codes (IFSC) have letters.

-- [payouts] The version before stores digits only, and copies what it reads into bank files.
alter table bank_accounts
    drop constraint bank_accounts_bank_code_check,
    add constraint bank_accounts_bank_code_check check (bank_code ~ '^[0-9A-Z]{0,12}$') not valid;
