-- The card that a payment was made with, as far as its gateway reports it. Null columns cost no
-- rewrite, and a server of the version before leaves them as they are.

-- [orders] As the provider names the brand, in small letters, "" if it does not. No number of a card
-- ever comes here: there is no room for one. Lengths, since a check would look at every row.
alter table payment_attempts
    add column card_brand varchar(20),
    add column card_last4 varchar(4);
