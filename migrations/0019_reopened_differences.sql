-- Differences that were resolved by an adjustment which was rejected are open again (0101).

-- [reconciliation] The resolutions that did not hold, oldest first, as JSON.
alter table reconciliation_differences add column earlier text not null default '[]';

-- What the version before has left resolved although nothing was moved.
update reconciliation_differences d
set resolved_at = null, resolved_by = null, resolution = null,
    earlier = json_build_array(json_build_object('at', d.resolved_at, 'by', d.resolved_by,
        'resolution', d.resolution, 'adjustment_id', a.id, 'rejected_at', a.decided_at,
        'rejected_by', a.decided_by, 'why', ''))::text
from adjustments a
where a.reference = d.id and a.status = 'REJECTED' and a.created_at = d.resolved_at;

-- What a later report may have, by the pages of that report.
create index reconciliation_differences_missing on reconciliation_differences (source, kind, reference)
    where resolved_at is null and what = 'missing in report';

-- [merchants] The newest line of a capability, however long the history is.
create index merchant_history_by_capability on merchant_history (merchant_id, capability, number)
    where capability is not null;
