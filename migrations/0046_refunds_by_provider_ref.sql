-- concurrently
-- A refund made at the provider is one refund, however often it is reported.
create unique index concurrently refunds_by_provider_ref
    on refunds (merchant_id, attempt_id, provider_ref) where source = 'GATEWAY';
