-- concurrently
-- Staff search products of all merchants by the words of their names.
create index concurrently products_by_words on products using gin (to_tsvector('simple', name));
