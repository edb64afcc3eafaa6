-- The card that a payment was made with, as far as its gateway reports it. Null columns cost no
-- rewrite, and a server of the version before leaves them as they are.

-- [orders] As the provider names the brand, in small letters, "" if it does not. No number of a card
-- ever comes here.
alter table payment_attempts
    add column card_brand text,
    add column card_last4 text;
-- Not looked at for the attempts that are there, which have none.
alter table payment_attempts
    add constraint payment_attempts_cards check (
        (card_brand is null) = (card_last4 is null)
        and card_brand ~ '^[a-z0-9_ -]{0,20}$' and card_last4 ~ '^[0-9]{4}$') not valid;
