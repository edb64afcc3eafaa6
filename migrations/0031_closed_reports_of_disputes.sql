-- A report of a dispute that somebody has dealt with, or that needed nobody, is never applied afterwards (decision 0012).

-- How an earlier report of the dispute was closed, if the gateway has reported more since.
alter table unmatched_disputes add column closed_before text;
