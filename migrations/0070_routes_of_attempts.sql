-- [orders] Why an attempt went to its account, as JSON (gateways/choice.py); null: nobody chose, or an
-- older version did. A null column costs no rewrite.
alter table payment_attempts add column route text;
