-- Why an address did not take a delivery, and deliveries that are sent before their time when the address works
-- again (decision 0170). The version before neither reads nor writes these columns.

-- [webhooks] The fault of an attempt (outgoing/faults.py); null if there is none, and for attempts of earlier
-- versions.
alter table delivery_attempts add column fault text;

-- [webhooks] The number of failures in its schedule after which a delivery was last sent before its time: at
-- most once after each of them.
alter table webhook_deliveries add column sent_early_failures integer;

-- [epay] The fault of the last try, the number of tries after which a notification was last sent before its time,
-- and until when a worker is sending it.
alter table epay_notifications
    add column fault text,
    add column sent_early_failures integer,
    add column sending_until bigint;
