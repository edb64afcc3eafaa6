-- Validates the constraints of 0092, which were added without reading the tables.
alter table balances validate constraint balances_add_up_to_zero;
alter table balances validate constraint balances_reserve_no_less_than_nothing;
alter table adjustments validate constraint adjustments_have_a_kind;
