-- Whether an order's money is real: false if it was paid through the sandbox bank. Null until it is
-- paid, if it was confirmed by hand, and where the version before confirmed it: then the attempt that
-- paid says it (orders/livemode.py). Nothing is rewritten.
alter table orders add column livemode boolean;
