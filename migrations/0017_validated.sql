-- Constraints that 0014 added without reading the tables hold for every row: the new columns are null
-- in old ones. Reading them now keeps nobody from writing, and lets a partition be attached.
alter table checkouts validate constraint checkouts_quantity;
alter table checkouts validate constraint checkouts_methods;
alter table checkouts validate constraint checkouts_client_reference;
alter table orders validate constraint orders_quantity;
alter table orders validate constraint orders_client_reference;
