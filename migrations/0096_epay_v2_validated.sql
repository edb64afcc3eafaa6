-- Validates the constraints of 0095, which were added without reading the tables.
alter table epay_credentials validate constraint epay_credentials_have_versions;
alter table epay_credentials validate constraint epay_credentials_v2_has_a_key;
alter table epay_credentials validate constraint epay_credentials_key_has_a_time;
alter table epay_orders validate constraint epay_orders_version_is_1_or_2;
