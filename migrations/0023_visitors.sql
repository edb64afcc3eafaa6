-- Under which address something is counted that anybody may do: null where it is not (0083, 0089).

-- [payment_links] Who has opened a session of a link with a number of uses, until it has ended.
alter table payment_link_uses add column visitor text;

-- [merchants] Who has sent an application by the page.
alter table merchant_applications add column visitor text;
create index merchant_applications_by_visitor on merchant_applications (visitor, applied_at)
    where visitor is not null;
