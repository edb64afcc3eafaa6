-- concurrently
-- Payouts by the reference of the bank's transfer, and differences by reference: staff search for both
-- at all merchants.
create index concurrently payouts_by_bank_reference on payouts (bank_reference)
    where bank_reference <> '';
create index concurrently reconciliation_differences_by_reference
    on reconciliation_differences (reference);
