-- Validates the constraints of 0056 and 0059, which were added without reading the tables.
alter table refunds validate constraint refunds_are_handled_by_somebody;
alter table refunds validate constraint refunds_that_are_handled_have_failed;
alter table disputes validate constraint disputes_response_check;
alter table disputes validate constraint disputes_response_has_person_and_time;
