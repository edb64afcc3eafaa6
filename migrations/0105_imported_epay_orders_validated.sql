-- Validates the constraint of 0104, which was added without reading the table.
alter table epay_credentials validate constraint epay_credentials_pid_has_up_to_nine_digits;
